"""One look at the GPUs: what NVML shows, where it sits, which nodes and CDI names it has."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from deviceplugin.backend import BackendOptions, BackendUnavailableError
from deviceplugin.cdi import CdiSpecs
from deviceplugin.events import Scan
from deviceplugin.model import BackendState, Device, DeviceId, Links, ResourceName
from deviceplugin.pci import PciBus
from deviceplugin.vendors.nvidia import nodes, pci
from deviceplugin.vendors.nvidia.door import Code, GpuInfo, Nvml, NvmlError
from deviceplugin.vendors.nvidia.health import speaks_of_driver

logger = logging.getLogger(__name__)

RESOURCE = ResourceName("nvidia.com/gpu")

CDI_KINDS = ("nvidia.com/gpu", "k8s.device-plugin.nvidia.com/gpu")
"""Kinds that name GPUs, by preference: the runtime's own spec, then the incumbent's."""

_NOT_FOR_COMPUTE = ("DGX Display", "NVIDIA DGX Display")
"""A graphics card in DGX stations that runs the screen and no CUDA program."""

_STATES = {
    Code.LIBRARY_NOT_FOUND: BackendState.NO_LIBRARY,
    Code.DRIVER_NOT_LOADED: BackendState.NO_DRIVER,
    Code.LIB_RM_VERSION_MISMATCH: BackendState.DRIVER_MISMATCH,
}

_REMEDIES = {
    BackendState.NO_LIBRARY: "give the pod the runtime class nvidia, or mount the driver's root"
    " and name it with --driver-root",
    BackendState.NO_DRIVER: "load the NVIDIA kernel module on this node",
    BackendState.DRIVER_MISMATCH: "the driver was replaced; restart this pod to get its library",
    BackendState.MONITOR_LOST: "devices keep their last verdict; asking again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What NVML alone told: GPUs by index, and an error for each that did not answer."""

    gpus: tuple[GpuInfo, ...]
    errors: tuple[str, ...]


def unavailable(error: NvmlError) -> BackendUnavailableError:
    """Name the state that an error of the driver as a whole stands for."""
    state = _STATES.get(Code(error.code)) if error.code in set(Code) else None
    state = state or BackendState.MONITOR_LOST
    return BackendUnavailableError(state, f"{error}; {_REMEDIES[state]}")


def enumerate_gpus(door: Nvml) -> Found:
    """Ask for each GPU; an error of one is that one's.

    Raises:
        NvmlError: the driver as a whole does not answer.

    """
    answers = [_ask(door, index) for index in range(door.count())]
    errors = [answer if isinstance(answer, NvmlError) else None for answer in answers]
    broken = speaks_of_driver(errors)
    if broken:
        raise broken
    return Found(
        gpus=tuple(answer for answer in answers if isinstance(answer, GpuInfo)),
        errors=tuple(
            f"GPU {index}: {error}" for index, error in enumerate(errors) if error is not None
        ),
    )


def _ask(door: Nvml, index: int) -> GpuInfo | NvmlError:
    try:
        return door.gpu(index)
    except NvmlError as error:
        return error


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """What the node says of GPUs besides NVML; for the scan thread."""

    options: BackendOptions
    bus: PciBus = field(init=False)
    cdi: CdiSpecs = field(init=False)

    def __post_init__(self) -> None:
        self.bus = pci.bus(self.options.sysfs)
        self.cdi = CdiSpecs(self.options.cdi_dirs)

    def scan(self, found: Found, links: Links | None = None) -> Scan:
        """Complete what NVML told to a scan."""
        names = self.cdi.names()
        # Asked for once: the same for all GPUs, and a scan comes every few seconds.
        control = nodes.control_nodes(self.options.devfs)
        usable = [gpu for gpu in found.gpus if _is_usable(gpu)]
        skipped = {gpu.pci_address for gpu in found.gpus} - {gpu.pci_address for gpu in usable}
        bus = self.bus.addresses()
        return Scan(
            devices=tuple(self._device(gpu, names, control) for gpu in usable),
            bus=None if bus is None else bus - skipped,
            problems=(*found.errors, *map(_divided, filter(_is_divided, found.gpus))),
            links=links or Links(),
        )

    def _device(self, gpu: GpuInfo, names: frozenset[str], control: tuple[str, ...]) -> Device:
        return Device(
            id=DeviceId(gpu.uuid),
            resource=RESOURCE,
            index=gpu.index,
            name=gpu.name,
            pci_address=gpu.pci_address,
            numa_node=self.bus.numa_node(gpu.pci_address),
            nodes=self._nodes(gpu, control),
            cdi_names=tuple(name for name in _cdi_names(gpu) if name in names),
            attributes=dict(self._attributes(gpu)),
        )

    def _nodes(self, gpu: GpuInfo, control: tuple[str, ...]) -> tuple[str, ...]:
        node = nodes.gpu_node(gpu.minor)
        if not nodes.visible(self.options.devfs, node):
            return ()
        return (*control, node)

    def _attributes(self, gpu: GpuInfo) -> Iterable[tuple[str, str]]:
        yield "minor", str(gpu.minor)
        if gpu.memory_mib is not None:
            yield "memory_mib", str(gpu.memory_mib)
        if self.options.host_node:
            yield "host_node", self.options.host_node


def _is_usable(gpu: GpuInfo) -> bool:
    return gpu.name not in _NOT_FOR_COMPUTE and not _is_divided(gpu)


def _is_divided(gpu: GpuInfo) -> bool:
    # CUDA cannot use a GPU whole while its MIG mode is on; a pod that got it would fail.
    return gpu.mig_enabled is True


def _divided(gpu: GpuInfo) -> str:
    return (
        f"GPU {gpu.index} ({gpu.uuid}) is not served: its MIG mode is on, and MIG devices are"
        " not supported yet; switch the mode off to have it whole"
    )


def _cdi_names(gpu: GpuInfo) -> tuple[str, ...]:
    return tuple(f"{kind}={name}" for kind in CDI_KINDS for name in (gpu.uuid, str(gpu.index)))
