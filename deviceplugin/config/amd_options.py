"""AMD's own options of a config, as ``Config.flags`` carries them to ``vendors/amd``."""

import enum
from dataclasses import dataclass

EXPORTER_SOCKET = "/var/lib/amd-metrics-exporter/amdgpu_device_metrics_exporter_grpc.socket"
"""Where AMD's metrics exporter serves what it thinks of each GPU's health."""


class PartitionStrategy(enum.StrEnum):
    """Which resources the GPUs of a node count under."""

    SINGLE = "single"  # all under amd.com/gpu; of unlike partitions only the commonest kind
    MIXED = "mixed"  # each kind under its own name, amd.com/cpx_nps4


class DeviceListStrategy(enum.StrEnum):
    """How a container gets its GPUs."""

    DEVICE_NODES = "device-nodes"
    CDI_CRI = "cdi-cri"
    CDI_ANNOTATIONS = "cdi-annotations"


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdFlags:
    """Valid flags of an AMD config.

    Attributes:
        device_list_strategies: at least one, in the order of the file, each once.
        cdi_annotation_prefix: in front of the annotation's key, under ``cdi-annotations``.
        addresses_env: set PCIDEVICE_<RESOURCE> to the PCI addresses of a container's GPUs.
        exporter_socket: of AMD's metrics exporter; "" asks nobody.
        kfd_events: listen for resets on /dev/kfd; needs leave to open it.
        amdsmi: ask AMD's management library too, in a child process.
        uncorrectable_errors: a GPU is Unhealthy when a block counted more than so many since
            the daemon first saw it.
        retired_pages: a GPU is Unhealthy from so many retired memory pages on; 0 for never.

    """

    partition_strategy: str = PartitionStrategy.SINGLE
    device_list_strategies: tuple[str, ...] = (DeviceListStrategy.DEVICE_NODES,)
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    addresses_env: bool = False
    exporter_socket: str = EXPORTER_SOCKET
    kfd_events: bool = False
    amdsmi: bool = False
    uncorrectable_errors: int = 0
    retired_pages: int = 0
