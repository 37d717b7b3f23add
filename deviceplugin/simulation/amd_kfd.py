"""KFD's nodes of a simulated machine: what stands in the files of each. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deviceplugin.simulation.amd_links import Unit, links
from deviceplugin.simulation.machine import BLOCK

_CPU = {"gpu_id": "0", "name": "", "properties": "cpu_cores_count 96\nsimd_count 0"}
_FIRST_GPU_ID = 1000
_MIB = 1 << 20
_VENDOR = 0x1002


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How this driver's tree differs from the usual one.

    Attributes:
        separator: in the names of partition devices.
        high_bits: a partition's number stands in bits 31:28 of its location.
        no_domain: KFD has no ``domain``.
        no_memory: KFD has no memory banks.
        no_render: KFD says that there is no render node (-1).
        own_ids: partitions of a GPU have unique ids of their own.
        no_numa: the PCI functions say -1.
        lost: numbers of partitions of each GPU that KFD does not show.

    """

    separator: str = "_"
    high_bits: bool = False
    no_domain: bool = False
    no_memory: bool = False
    no_render: bool = False
    own_ids: bool = False
    no_numa: bool = False
    lost: frozenset[int] = frozenset()


def gpu_id(gpu: int, part: int) -> int:
    """KFD's id of a unit; as the kernel's, no index and no minor."""
    return _FIRST_GPU_ID + BLOCK * gpu + part


def nodes(shown: Sequence[Unit], cpus: int, variant: Variant) -> Iterator[Mapping[str, str]]:
    """Files of each node by their place in its folder: first the CPUs, then the units."""
    for _ in range(cpus):
        yield _CPU
    for place, unit in enumerate(shown):
        files = {
            "gpu_id": str(gpu_id(unit.gpu.index, unit.number)),
            "name": "ip discovery",
            "properties": _lines(_properties(unit, variant)),
        }
        if not variant.no_memory:
            size = unit.gpu.memory_mib * _MIB // unit.of
            files["mem_banks/0/properties"] = _lines({"heap_type": 1, "size_in_bytes": size})
        yield files | _links(cpus + place, unit, shown, cpus)


def _links(node: int, unit: Unit, shown: Sequence[Unit], cpus: int) -> dict[str, str]:
    files: dict[str, str] = {}
    count = {"io_links": 0, "p2p_links": 0}
    for link in links(unit, shown, cpus):
        known = {
            "type": link.kind,
            "version_major": 0,
            "version_minor": 0,
            "node_from": node,
            "node_to": link.to,
            "weight": link.weight,
        }
        files[f"{link.folder}/{count[link.folder]}/properties"] = _lines(known)
        count[link.folder] += 1
    return files


def _properties(unit: Unit, variant: Variant) -> dict[str, int]:
    gpu = unit.gpu
    known = {
        "cpu_cores_count": 0,
        "simd_count": 1216 * gpu.xccs // 8 // unit.of,
        "mem_banks_count": 0 if variant.no_memory else 1,
        "simd_per_cu": 4,
        "num_xcc": gpu.xccs // unit.of or 1,
        "gfx_target_version": 90402,
        "vendor_id": _VENDOR,
        "device_id": int(gpu.pci_device, 16),
        "location_id": _location(unit, variant),
        "domain": int(gpu.pci_address[:4], 16),
        "drm_render_minor": -1 if variant.no_render else gpu.render + unit.number,
        "hive_id": 0 if gpu.hive is None else 0x1000 + gpu.hive,
        "unique_id": int(gpu.unique_id, 16) + (unit.number if variant.own_ids else 0),
    }
    if variant.no_domain:
        del known["domain"]
    return known


def _location(unit: Unit, variant: Variant) -> int:
    bus, device = (int(part, 16) for part in unit.gpu.pci_address[5:-2].split(":"))
    location = bus << 8 | device << 3
    if unit.of == 1:
        return location
    return location | (unit.number << 28 if variant.high_bits else unit.number)


def _lines(known: Mapping[str, int]) -> str:
    return "\n".join(f"{key} {value}" for key, value in known.items())
