"""A simulated machine: what its YAML file says, as frozen values."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from deviceplugin.errors import WrongUseError
from deviceplugin.simulation.timeline import Step

DEFAULT_MACHINE = "h100x8"

FIRST_RENDER = 128
"""The kernel numbers render nodes from here on."""

BLOCK = 8
"""Card and render nodes that amdgpu reserves for a GPU, one for each partition it may have."""


class MachineNotFoundError(WrongUseError):
    """No shipped machine of that name, and no such file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """A NUMA node; ``cpus`` in the kernel's list form (``0-55,112-167``), "" for none."""

    id: int
    cpus: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One NVIDIA GPU.

    Attributes:
        index: on the complete machine; steps name a GPU by it.
        memory_mib: as the driver reports it.
        numa_node: None for unknown (sysfs then says -1).
        pci_device: the PCI device id, ``0x2330``.

    """

    index: int
    uuid: str
    minor: int
    model: str
    memory_mib: int
    pci_address: str
    numa_node: int | None
    pci_device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvidia:
    """NVIDIA's driver, and the GPUs it shows."""

    driver: str
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdGpu:
    """One AMD GPU.

    Attributes:
        index: on the complete machine; steps name a GPU by it.
        memory_mib: of the whole GPU.
        unique_id: 16 hexadecimal digits.
        compute, memory: partition modes at the start, ``SPX`` and ``NPS1``; "" where the GPU
            cannot be partitioned.
        xccs: compute dies: partitions in CPX.
        hive: GPUs of one hive are linked by XGMI; None for a GPU without.

    """

    index: int
    model: str
    memory_mib: int
    pci_address: str
    numa_node: int | None
    pci_device: str
    unique_id: str
    compute: str = ""
    memory: str = ""
    xccs: int = 8
    hive: int | None = None

    @property
    def card(self) -> int:
        """Number of its first card node; the others of its block are for partitions."""
        return 1 + BLOCK * self.index

    @property
    def render(self) -> int:
        """Number of its first render node."""
        return FIRST_RENDER + BLOCK * self.index


@dataclass(frozen=True, slots=True, kw_only=True)
class Amd:
    """AMD's driver, and the GPUs it shows."""

    driver: str
    gpus: tuple[AmdGpu, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """What ``simulate`` does on this machine.

    Attributes:
        pods: most demo pods alive at a time.
        every: seconds between two of their comings and goings.
        timeline: faults that only ``simulate`` shows.

    """

    pods: int = 4
    every: float = 2.0
    timeline: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A whole machine.

    Attributes:
        nvidia: None where not even NVIDIA's library is installed.
        amd: None where amdgpu is not loaded.

    """

    name: str
    numa: tuple[NumaNode, ...] = ()
    nvidia: Nvidia | None = None
    amd: Amd | None = None
    timeline: tuple[Step, ...] = ()
    demo: Demo = Demo()

    @property
    def vendors(self) -> tuple[str, ...]:
        """Vendors with hardware here; a machine without any stands for one that lacks NVIDIA's."""
        found = tuple(name for name, count in self.gpus.items() if count)
        return found or ("nvidia",)

    @property
    def gpus(self) -> Mapping[str, int]:
        """Number of GPUs by vendor."""
        return {
            "nvidia": len(self.nvidia.gpus) if self.nvidia else 0,
            "amd": len(self.amd.gpus) if self.amd else 0,
        }


def shipped() -> tuple[str, ...]:
    """Names of the machines that come with the package."""
    return tuple(sorted(path.stem for path in _shipped_files()))


def _shipped_files() -> Iterator[Path]:
    folder = resources.files("deviceplugin") / "configs" / "simulated"
    with resources.as_file(folder) as path:
        yield from path.glob("*.yaml")


def find(machine: str) -> Path:
    """Find the file of a machine, by shipped name or by path.

    Raises:
        MachineNotFoundError: naming the nearest shipped machine.

    """
    files = {path.stem: path for path in _shipped_files()}
    if machine in files:
        return files[machine]
    if Path(machine).is_file():
        return Path(machine).resolve()
    near = difflib.get_close_matches(machine, files, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    names = ", ".join(sorted(files))
    raise MachineNotFoundError(
        f"no simulated machine {machine!r}: {hint}write one of {names}, or the path of a file"
    )
