"""NVIDIA GPUs through NVML."""

from pathlib import Path
from typing import cast

from deviceplugin.backend import Backend, BackendOptions
from deviceplugin.vendors.nvidia.door import Nvml
from deviceplugin.vendors.nvidia.health import Health, Timing
from deviceplugin.vendors.nvidia.nvidia_backend import NvidiaBackend
from deviceplugin.vendors.nvidia.nvml import RealNvml

DRIVER_ROOT = Path("/driver-root")
"""Where NVIDIA's containers mount the driver's root, unless told otherwise."""


def create(options: BackendOptions) -> Backend:
    """Make the backend; ``options.driver`` is a door to a simulated driver, if any."""
    health = Health(timing=Timing(poll=options.poll_seconds))
    return NvidiaBackend(options=options, door=_door(options), health=health)


def _door(options: BackendOptions) -> Nvml:
    if options.driver is not None:
        return cast("Nvml", options.driver)
    return RealNvml(library=options.library, driver_root=options.driver_root or DRIVER_ROOT)
