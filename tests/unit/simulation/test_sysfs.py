"""The /sys and /dev trees of a machine."""

from dataclasses import replace
from pathlib import Path

import pytest

from deviceplugin.simulation.machine import Machine
from deviceplugin.simulation.sysfs import Tree


@pytest.fixture
def tree(tmp_path: Path, machine: Machine) -> Tree:
    """Write the small machine's trees."""
    tree = Tree(sysfs=tmp_path / "sys", devfs=tmp_path / "dev", machine=machine)
    tree.write()
    return tree


def _bus(tree: Tree) -> list[str]:
    return sorted(path.name for path in (tree.sysfs / "bus/pci/devices").iterdir())


def test_pci_devices_are_complete(tree: Tree) -> None:
    """Each GPU is on the bus, with vendor, class and NUMA node."""
    assert _bus(tree) == ["0000:10:00.0", "0000:13:00.0"]
    device = tree.sysfs / "bus/pci/devices/0000:13:00.0"
    read = {name: (device / name).read_text().strip() for name in ("vendor", "class", "numa_node")}
    assert read == {"vendor": "0x10de", "class": "0x030200", "numa_node": "1"}


def test_numa_nodes_have_their_cpus(tree: Tree) -> None:
    """NUMA nodes list their CPUs as the kernel does."""
    nodes = tree.sysfs / "devices/system/node"
    assert (nodes / "node1/cpulist").read_text() == "4-7\n"
    assert (nodes / "online").read_text() == "0,1\n"


def test_device_nodes_exist(tree: Tree) -> None:
    """There is a node for each GPU and for the driver itself."""
    names = {path.name for path in tree.devfs.iterdir()}
    assert {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"} <= names


def test_unplug_and_plug(tree: Tree) -> None:
    """A GPU leaves the bus and comes back; doing either twice does no harm."""
    tree.unplug(0)
    tree.unplug(0)
    assert _bus(tree) == ["0000:13:00.0"]
    tree.plug(0)
    tree.plug(0)
    assert _bus(tree) == ["0000:10:00.0", "0000:13:00.0"]


def test_a_bare_machine_has_an_empty_bus(tmp_path: Path) -> None:
    """Without GPUs the bus can be read and is empty, and there is no device node."""
    tree = Tree(sysfs=tmp_path / "sys", devfs=tmp_path / "dev", machine=Machine(name="bare"))
    tree.write()
    assert _bus(tree) == []
    assert list(tree.devfs.iterdir()) == []


def test_an_unknown_numa_node_is_minus_one(tmp_path: Path, machine: Machine) -> None:
    """A GPU of unknown NUMA node reads -1, as in the kernel."""
    assert machine.nvidia is not None
    gpus = tuple(replace(gpu, numa_node=None) for gpu in machine.nvidia.gpus)
    unknown = replace(machine, nvidia=replace(machine.nvidia, gpus=gpus))
    tree = Tree(sysfs=tmp_path / "sys", devfs=tmp_path / "dev", machine=unknown)
    tree.write()
    path = tree.sysfs / "bus/pci/devices/0000:10:00.0/numa_node"
    assert path.read_text() == "-1\n"
