"""AMD GPUs, whole and partitioned, through sysfs."""

from typing import cast

from deviceplugin.backend import Backend, BackendOptions
from deviceplugin.vendors.amd.amd_backend import AmdBackend
from deviceplugin.vendors.amd.door import AmdDoor
from deviceplugin.vendors.amd.health import Health, Timing
from deviceplugin.vendors.amd.kfd_events import RealDoor


def create(options: BackendOptions) -> Backend:
    """Make the backend; ``options.driver`` is a door to a simulated driver, if any."""
    door = RealDoor(devfs=options.devfs) if options.driver is None else _given(options.driver)
    return AmdBackend(
        options=options, door=door, health=Health(timing=Timing(poll=options.poll_seconds))
    )


def _given(driver: object) -> AmdDoor:
    # Options are every vendor's, so they cannot name the type of one vendor's door.
    return cast("AmdDoor", driver)
