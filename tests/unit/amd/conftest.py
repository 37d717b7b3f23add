"""Machines with AMD GPUs, as trees of files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from deviceplugin.backend import BackendOptions
from deviceplugin.events import Scan
from deviceplugin.simulation.amd_kfd import Variant
from deviceplugin.simulation.amd_tree import AmdTree
from deviceplugin.simulation.machine import Amd, AmdGpu, Machine, NumaNode
from deviceplugin.simulation.sysfs import Tree
from deviceplugin.vendors.amd.discover import Look

PLAIN = Variant()


@dataclass(kw_only=True)
class Node:
    """A machine under test: its trees, and what discovery makes of them."""

    root: Path
    machine: Machine
    variant: Variant = PLAIN
    tree: AmdTree = field(init=False)
    look: Look = field(init=False)

    def __post_init__(self) -> None:
        """Write the trees."""
        sysfs, devfs = self.root / "sys", self.root / "dev"
        Tree(sysfs=sysfs, devfs=devfs, machine=self.machine).write_node()
        self.tree = AmdTree(sysfs=sysfs, devfs=devfs, machine=self.machine, variant=self.variant)
        self.tree.write()
        self.look = Look(options=BackendOptions(sysfs=sysfs, devfs=devfs))

    def scan(self) -> Scan:
        """Look."""
        return self.look.scan()

    def ids(self) -> list[str]:
        """Ids of what is found."""
        return [device.id for device in self.scan().devices]

    @property
    def kfd(self) -> Path:
        """KFD's nodes."""
        return self.tree.kfd / "nodes"

    def pci(self, index: int) -> Path:
        """Folder of a GPU on the PCI bus."""
        address = self.tree.gpus[index].gpu.pci_address
        return self.root / "sys/bus/pci/devices" / address


def gpu(index: int, mode: str = "SPX/NPS1", **changes: object) -> AmdGpu:
    """An MI300X; ``mode`` "" for a GPU that cannot be divided."""
    compute, _, memory = mode.partition("/")
    known = AmdGpu(
        index=index,
        model="AMD Instinct MI300X",
        memory_mib=196_592,
        pci_address=f"0000:{5 + 16 * index:02x}:00.0",
        numa_node=index % 2,
        pci_device="0x74a1",
        unique_id=f"{index + 1:016x}",
        compute=compute,
        memory=memory,
        xccs=8,
        hive=0,
    )
    return replace(known, **changes)  # type: ignore[arg-type]  # keywords of one dataclass


MakeNode = Callable[..., Node]


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[MakeNode]:
    """Make a node from GPUs; keywords are those of ``Variant``."""
    made: list[Node] = []

    def make(*gpus: AmdGpu, **variant: object) -> Node:
        machine = Machine(
            name="test",
            numa=(NumaNode(id=0, cpus="0-7"), NumaNode(id=1, cpus="8-15")),
            amd=Amd(driver="6.14.14", gpus=gpus),
        )
        known = Variant(**variant)  # type: ignore[arg-type]  # keywords of one dataclass
        made.append(Node(root=tmp_path / str(len(made)), machine=machine, variant=known))
        return made[-1]

    yield make
    made.clear()


@pytest.fixture
def make_gpu() -> Callable[..., AmdGpu]:
    """Make a GPU."""
    return gpu
