"""KFD's topology: its nodes, and the links between them.

Below ``class/kfd/kfd/topology``. A node with SIMDs is a GPU, or a partition of one; CPU
nodes stand for NUMA nodes, in their order.

The kernel answers EPERM for a GPU's node to a process whose device cgroup may not use the
GPU's render node (``kfd_devcgroup_check_permission``): an unprivileged container sees that
there are nodes, and nothing of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin import sysfs
from deviceplugin.vendors.amd import properties

_LINK_FOLDERS = ("io_links", "p2p_links")
_DEVICE_MEMORY = (1, 2)  # heap types: frame buffer, visible or not
_HIGHEST_MINOR = (1 << 20) - 1  # what a dev_t holds
_HIGHEST_WEIGHT = 100_000
_BYTES_PER_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KfdLink:
    """A link to another node; ``kind`` 2 is PCIe, 11 is XGMI."""

    to: int
    kind: int
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KfdNode:
    """A node that is a GPU, or a partition.

    Attributes:
        number: of its folder; may change at a reboot or a repartition.
        gpu_id: KFD's id, in events; 0 where unknown.
        domain: PCI domain; None where the driver does not say.
        location: ``location_id``: bus, device and function, and the partition's number.
        render_minor: of its device node; None where there is none, or it is hidden.

    """

    number: int
    gpu_id: int
    domain: int | None
    location: int
    render_minor: int | None
    links: tuple[KfdLink, ...] = ()
    memory_mib: int | None = None

    @property
    def bus(self) -> int:
        """PCI bus."""
        return self.location >> 8 & 0xFF

    @property
    def device(self) -> int:
        """PCI device (slot)."""
        return self.location >> 3 & 0x1F


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What KFD shows.

    Attributes:
        gpus: by node number.
        cpus: node numbers of CPU nodes, ascending: the first is NUMA node 0.
        hidden: nodes that this process may not read.
        problems: a line for each node that could not be understood.
        generation: rises with each change; None where the driver has no such number.

    """

    gpus: tuple[KfdNode, ...] = ()
    cpus: tuple[int, ...] = ()
    hidden: int = 0
    problems: tuple[str, ...] = ()
    generation: int | None = None


@dataclass(slots=True, kw_only=True)
class Kfd:
    """KFD below a sysfs root; for the scan thread.

    Links and memory are kept while the generation stays: 64 partitions have 4,096 links, a
    file each.
    """

    sysfs: Path
    _further: dict[int, tuple[tuple[KfdLink, ...], int | None]] = field(default_factory=dict)
    _kept: tuple[int | None, tuple[int, ...]] = (None, ())

    @property
    def root(self) -> Path:
        """Folder of the topology."""
        return self.sysfs / "class/kfd/kfd/topology"

    def is_there(self) -> bool:
        """Whether the driver has KFD at all."""
        return (self.root / "nodes").is_dir()

    def generation(self) -> int | None:
        """Rises with each change of the topology."""
        return sysfs.number(self.root / "generation_id")

    def topology(self) -> Topology:
        """Read all nodes; one that vanishes meanwhile is not there."""
        generation = self.generation()
        numbers = sorted(int(name) for name in sysfs.entries(self.root / "nodes") if _is_node(name))
        kept = (generation, tuple(numbers))
        if generation is None or kept != self._kept:
            self._further.clear()
        self._kept = kept
        found = _Reading()
        for number in numbers:
            self._read(number, found)
        return Topology(
            gpus=tuple(found.gpus),
            cpus=tuple(found.cpus),
            hidden=found.hidden,
            problems=tuple(found.problems),
            generation=generation,
        )

    def _read(self, number: int, found: "_Reading") -> None:
        folder = self.root / "nodes" / str(number)
        try:
            known = properties.parse(sysfs.read(folder / "properties"))
        except PermissionError:
            found.hidden += 1
            return
        except FileNotFoundError:
            return
        except OSError as error:
            found.problems.append(f"KFD node {number}: properties cannot be read: {error.strerror}")
            return
        if _is_gpu(known):
            self._take(number, known, found)
        elif known.get("cpu_cores_count", 0) > 0:
            found.cpus.append(number)

    def _take(self, number: int, known: Mapping[str, int], found: "_Reading") -> None:
        location = known.get("location_id")
        if location is None or not 0 <= location < 1 << 32:
            found.problems.append(f"KFD node {number}: no location_id, so its GPU is unknown")
            return
        links, memory = self._of(number)
        found.gpus.append(
            KfdNode(
                number=number,
                gpu_id=sysfs.number(self.root / "nodes" / str(number) / "gpu_id") or 0,
                domain=known.get("domain"),
                location=location,
                render_minor=_minor(known.get("drm_render_minor")),
                links=links,
                memory_mib=memory,
            )
        )

    def _of(self, number: int) -> tuple[tuple[KfdLink, ...], int | None]:
        if number not in self._further:
            folder = self.root / "nodes" / str(number)
            self._further[number] = (_links(folder), _memory(folder))
        return self._further[number]


@dataclass(slots=True)
class _Reading:
    gpus: list[KfdNode] = field(default_factory=list)
    cpus: list[int] = field(default_factory=list)
    hidden: int = 0
    problems: list[str] = field(default_factory=list)


def _is_node(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= len("99999")


def _is_gpu(known: Mapping[str, int]) -> bool:
    if known.get("simd_count", 0) > 0:
        return True
    return known.get("gfx_target_version", 0) > 0 and known.get("cpu_cores_count", 0) == 0


def _minor(value: int | None) -> int | None:
    # -1 and 0 say that there is none.
    return value if value is not None and 0 < value <= _HIGHEST_MINOR else None


def _links(folder: Path) -> tuple[KfdLink, ...]:
    found = []
    for kind in _LINK_FOLDERS:
        for name in sysfs.entries(folder / kind):
            known = properties.parse(sysfs.text(folder / kind / name / "properties"))
            to, weight = known.get("node_to"), known.get("weight")
            if to is not None and weight is not None and 0 <= weight <= _HIGHEST_WEIGHT:
                found.append(KfdLink(to=to, kind=known.get("type", 0), weight=weight))
    return tuple(found)


def _memory(folder: Path) -> int | None:
    banks = [
        properties.parse(sysfs.text(folder / "mem_banks" / name / "properties"))
        for name in sysfs.entries(folder / "mem_banks")
    ]
    sizes = [
        bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in _DEVICE_MEMORY
    ]
    total = sum(size for size in sizes if size > 0)
    return total // _BYTES_PER_MIB or None
