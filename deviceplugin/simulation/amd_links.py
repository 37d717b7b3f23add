"""Units that a simulated AMD GPU is divided into, and KFD's links between them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deviceplugin.simulation.machine import AmdGpu

PCIE, XGMI = 2, 11

SAME_GPU, SAME_HIVE, OTHER_GPU = 13, 15, 41
TO_CPU, SAME_SOCKET, OTHER_SOCKET = 20, 40, 72
"""Weights as KFD gives them: XGMI within a GPU, between whole GPUs, between parts of two; and
20 for each PCIe segment, with the link between sockets on top."""

_PARTS = {"": 1, "SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A whole GPU, or partition ``number`` of ``of``."""

    gpu: AmdGpu
    number: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link as KFD shows it; ``to`` is a node's number."""

    folder: str
    to: int
    kind: int
    weight: int


def units(gpu: AmdGpu) -> tuple[Unit, ...]:
    """Divide a GPU by its mode; in CPX each compute die is a partition."""
    count = _PARTS.get(gpu.compute, gpu.xccs)
    return tuple(Unit(gpu=gpu, number=number, of=count) for number in range(count))


def links(unit: Unit, shown: Sequence[Unit], cpus: int) -> Iterator[Link]:
    """Links of a unit: to its CPU, to what it reaches by XGMI, and over PCIe to the rest."""
    numa = unit.gpu.numa_node or 0
    yield Link(folder="io_links", to=min(numa, cpus - 1), kind=PCIE, weight=TO_CPU)
    for place, other in enumerate(shown):
        if other == unit:
            continue
        weight = _by_xgmi(unit, other)
        if weight:
            yield Link(folder="io_links", to=cpus + place, kind=XGMI, weight=weight)
        else:
            yield Link(folder="p2p_links", to=cpus + place, kind=PCIE, weight=_by_pcie(unit, other))


def _by_xgmi(one: Unit, other: Unit) -> int:
    if one.gpu.index == other.gpu.index:
        return SAME_GPU
    if one.gpu.hive is None or one.gpu.hive != other.gpu.hive:
        return 0
    return SAME_HIVE if one.of == other.of == 1 else OTHER_GPU


def _by_pcie(one: Unit, other: Unit) -> int:
    return SAME_SOCKET if one.gpu.numa_node == other.gpu.numa_node else OTHER_SOCKET
