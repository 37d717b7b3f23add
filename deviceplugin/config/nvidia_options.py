"""NVIDIA's own options of a config, as ``Config.flags`` carries them to ``vendors/nvidia``."""

import enum
from dataclasses import dataclass


class DeviceListStrategy(enum.StrEnum):
    """How a container learns which GPUs are its own."""

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI_CRI = "cdi-cri"
    CDI_ANNOTATIONS = "cdi-annotations"


class DeviceIdStrategy(enum.StrEnum):
    """What names a GPU towards the container runtime."""

    UUID = "uuid"
    INDEX = "index"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaFlags:
    """Valid flags of an NVIDIA config.

    Attributes:
        device_list_strategies: at least one, in the order of the file, each once.
        device_id_strategy: UUIDs are stable, indexes may change at a reboot.
        pass_device_specs: None hands device nodes out where they are visible to us.
        nvidia_driver_root: the driver's folder on the host.
        nvidia_dev_root: prefix of device nodes on the host; None means the driver root.
        container_driver_root: the driver's folder in our own file system; NVML is
            looked up there first.
        cdi_annotation_prefix: in front of the annotation's key, under ``cdi-annotations``.
        restart_on_driver_mismatch: fail liveness when an injected library no longer
            fits the loaded driver.

    """

    device_list_strategies: tuple[str, ...] = (DeviceListStrategy.ENVVAR,)
    device_id_strategy: str = DeviceIdStrategy.UUID
    pass_device_specs: bool | None = None
    nvidia_driver_root: str = "/"
    nvidia_dev_root: str | None = None
    container_driver_root: str = "/driver-root"
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    restart_on_driver_mismatch: bool = False
