"""NVIDIA GPUs through NVML."""

from pathlib import Path
from typing import cast

from deviceplugin.backend import Backend, BackendOptions
from deviceplugin.config.nvidia_options import NvidiaFlags
from deviceplugin.vendors.nvidia.door import Nvml
from deviceplugin.vendors.nvidia.health import Health, Timing
from deviceplugin.vendors.nvidia.nvidia_backend import NvidiaBackend
from deviceplugin.vendors.nvidia.nvml import RealNvml


def create(options: BackendOptions) -> Backend:
    """Make the backend; ``options.driver`` is a door to a simulated driver, if any."""
    health = Health(timing=Timing(poll=options.poll_seconds))
    if options.driver is not None:
        return NvidiaBackend(options=options, door=_given(options.driver), health=health)
    root = options.driver_root or Path(NvidiaFlags().container_driver_root)
    door = RealNvml(library=options.library, driver_root=root)
    # The command line outranks the config.
    look_under = None if options.driver_root else door.look_under
    return NvidiaBackend(options=options, door=door, health=health, look_under=look_under)


def _given(driver: object) -> Nvml:
    # Options are every vendor's, so they cannot name the type of one vendor's door.
    return cast("Nvml", driver)
