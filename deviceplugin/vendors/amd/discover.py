"""One look at AMD's GPUs: KFD's nodes, the PCI functions behind them, their device nodes."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin.backend import BackendOptions, BackendUnavailableError
from deviceplugin.cdi import CdiSpecs, Named
from deviceplugin.events import Scan
from deviceplugin.model import BackendState, Device, DeviceId, ResourceName
from deviceplugin.vendors.amd import drm, links
from deviceplugin.vendors.amd.cdi_names import cdi_names
from deviceplugin.vendors.amd.join import Join, Part, expected
from deviceplugin.vendors.amd.kfd import Kfd, Topology
from deviceplugin.vendors.amd.pci import Function, Functions

logger = logging.getLogger(__name__)

RESOURCE = ResourceName("amd.com/gpu")
KFD_NODE = "/dev/kfd"
DRI = "/dev/dri"

UNNAMED = "partitioned"
"""Layout of a GPU that KFD shows in parts and whose driver has no word for it."""

_TRIES = 3
"""Reads of a topology that changes meanwhile, before it is taken as it is."""


@dataclass(slots=True, kw_only=True)
class Look:
    """Looks at the node again and again; for the scan thread.

    Attributes:
        generation: KFD's, at the last look.
        hidden: KFD nodes that this process may not read.

    Partition modes are kept while KFD's generation stays: reading them may wake the GPU.
    """

    options: BackendOptions
    kfd: Kfd = field(init=False)
    pci: Functions = field(init=False)
    cdi: CdiSpecs = field(init=False)
    _named: Named = field(default_factory=dict)
    _modes: dict[str, tuple[str, str]] = field(default_factory=dict)
    _modes_of: object = None
    generation: int | None = None
    hidden: int = 0

    def __post_init__(self) -> None:
        self.kfd = Kfd(sysfs=self.options.sysfs)
        self.cdi = CdiSpecs(self.options.cdi_dirs)
        self.pci = Functions(root=self.options.sysfs)

    def scan(self) -> Scan:
        """Look once.

        Raises:
            BackendUnavailableError: the driver as a whole is not there.

        """
        on_bus = self.pci.bus.addresses()
        self._require_driver(on_bus)
        topology, functions = self._settled()
        self.generation, self.hidden = topology.generation, topology.hidden
        if not topology.gpus and not topology.hidden and not on_bus:
            raise _no_devices()
        join = Join(topology=topology, functions=functions, xcp=drm.partitions(self.options.sysfs))
        join.run()
        return self._scan(join, on_bus)

    def _require_driver(self, on_bus: frozenset[str] | None) -> None:
        root = self.options.sysfs
        if not (root / "bus/pci").is_dir() and not (root / "class").is_dir():
            raise _no_driver(f"{root} is no sysfs: name the folder of /sys with --sysfs")
        loaded = (root / "module/amdgpu").is_dir() or (root / "bus/pci/drivers/amdgpu").is_dir()
        if not loaded:
            shown = f"{len(on_bus)} AMD GPUs" if on_bus else "no AMD GPU"
            raise _no_driver(
                f"the kernel module amdgpu is not loaded ({shown} on the PCI bus); load it:"
                " modprobe amdgpu"
            )
        if not self.kfd.is_there() and on_bus:
            raise _no_driver(
                "amdgpu is loaded without KFD, its part for compute: /sys/class/kfd is missing;"
                " a kernel with CONFIG_HSA_AMD has it, some minimal systems leave it out"
            )

    def _settled(self) -> tuple[Topology, list[Function]]:
        for _ in range(_TRIES):
            topology = self.kfd.topology()
            functions = self._functions(topology)
            if self.kfd.generation() == topology.generation:
                break
        return topology, functions

    def _functions(self, topology: Topology) -> list[Function]:
        addresses = self.pci.driven()
        key = (topology.generation, addresses, [node.number for node in topology.gpus])
        if topology.generation is None or key != self._modes_of:
            self._modes = {each: self.pci.modes(each) for each in addresses}
        self._modes_of = key
        found = (self.pci.function(each, self._modes[each]) for each in addresses)
        return [function for function in found if function is not None]

    def _scan(self, join: Join, on_bus: frozenset[str] | None) -> Scan:
        self._named = self.cdi.named()
        ranks = {node.number: rank for rank, node in enumerate(join.topology.gpus)}
        wanted = expected(join.parts)
        devices: list[Device] = []
        for part in join.parts:
            index = ranks[part.node.number] if part.node else len(ranks) + len(devices)
            devices.append(self._device(part, index, join.topology, wanted))
        by_node = {
            part.node.number: device.id
            for part, device in zip(join.parts, devices, strict=True)
            if part.node
        }
        return Scan(
            devices=tuple(devices),
            bus=on_bus,
            problems=(*join.topology.problems, *join.problems),
            links=links.weights(by_node, join.topology.gpus),
        )

    def _device(
        self, part: Part, index: int, topology: Topology, wanted: Mapping[str, int]
    ) -> Device:
        function = part.function
        whole = DeviceId(function.address)
        is_part = part.number is not None
        return Device(
            id=DeviceId(f"{whole}-p{part.number}") if is_part else whole,
            resource=RESOURCE,
            index=index,
            name=function.name,
            pci_address=function.address,
            numa_node=self._numa(part, topology),
            parent=whole if is_part else None,
            layout=function.layout or (UNNAMED if is_part else ""),
            nodes=tuple(self._nodes(part)),
            cdi_names=cdi_names(f"{DRI}/renderD{part.minors.render}", self._named),
            attributes=dict(self._attributes(part, wanted)),
        )

    def _numa(self, part: Part, topology: Topology) -> int | None:
        if part.function.numa_node is not None or part.node is None:
            return part.function.numa_node
        return self.pci.bus.usable_node(links.numa_rank(part.node, topology.cpus))

    def _nodes(self, part: Part) -> Iterator[str]:
        names = [KFD_NODE]
        if part.minors.card is not None:
            names.append(f"{DRI}/card{part.minors.card}")
        names.append(f"{DRI}/renderD{part.minors.render}")
        # Where the host's nodes are not in our sight at all, sysfs is believed.
        sees = (self.options.devfs / "dri").is_dir()
        yield from (name for name in names if not sees or _exists(self.options.devfs, name))

    def _attributes(self, part: Part, wanted: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        node, function = part.node, part.function
        memory = (node.memory_mib if node else None) or (
            function.memory_mib if part.number is None else None
        )
        known = {
            "kfd_node": node.number if node else None,
            "gpu_id": (node.gpu_id or None) if node else None,
            "card": part.minors.card,
            "render": part.minors.render,
            "memory_mib": memory,
            "unique_id": function.unique_id or None,
            "partition": part.number,
            "partitions": wanted.get(function.address),
            "gid": self._gid(part),
            "host_node": self.options.host_node or None,
        }
        yield from ((key, str(value)) for key, value in known.items() if value is not None)

    def _gid(self, part: Part) -> int | None:
        """Group that owns the render node; None where it is root's."""
        path = self.options.devfs / "dri" / f"renderD{part.minors.render}"
        try:
            return path.stat().st_gid or None
        except OSError:
            return None


def _exists(devfs: Path, node: str) -> bool:
    return (devfs / node.removeprefix("/dev/")).exists()


def _no_driver(detail: str) -> BackendUnavailableError:
    return BackendUnavailableError(BackendState.NO_DRIVER, detail)


def _no_devices() -> BackendUnavailableError:
    return BackendUnavailableError(
        BackendState.NO_DEVICES,
        "amdgpu is loaded, and neither KFD nor the PCI bus shows a GPU; looking again",
    )
