"""GPUs and NUMA nodes as sysfs shows them."""

from typing import Any

import pytest

from deviceplugin.vendors.nvidia.pci import bus


@pytest.mark.parametrize(
    ("files", "counts"),
    [
        pytest.param({"class": "0x030200"}, True, id="3D controller"),
        pytest.param({"class": "0x030000"}, True, id="VGA controller"),
        pytest.param({"class": "0x040300"}, False, id="audio function of a GPU"),
        pytest.param({"class": "0x068000"}, False, id="NVSwitch"),
        pytest.param({"vendor": "0x1002"}, False, id="another vendor"),
    ],
)
def test_what_counts_as_a_gpu(node: Any, files: dict[str, str], *, counts: bool) -> None:
    """NVIDIA's display classes are GPUs; what else it makes is not."""
    node.pci("0000:10:00.0", **files)
    assert bool(bus(node.options.sysfs).addresses()) is counts


@pytest.mark.parametrize(
    ("driver", "counts"),
    [("nvidia", True), ("vfio-pci", False), ("nouveau", False), (None, True)],
    ids=str,
)
def test_gpus_of_other_drivers(node: Any, driver: str | None, *, counts: bool) -> None:
    """A GPU that was given to a virtual machine is not one that NVML fails to show."""
    node.pci("0000:10:00.0")
    if driver:
        drivers = node.root / "sys/bus/pci/drivers"
        (node.root / "sys/bus/pci/devices/0000:10:00.0/driver").symlink_to(drivers / driver)
    assert bool(bus(node.options.sysfs).addresses()) is counts


def test_virtual_function(node: Any) -> None:
    """A virtual function belongs to its guest."""
    node.pci("0000:10:00.4")
    (node.root / "sys/bus/pci/devices/0000:10:00.4/physfn").mkdir()
    assert bus(node.options.sysfs).addresses() == frozenset()


def test_hot_plug(node: Any) -> None:
    """The bus is looked at again each time, devices only when they are new."""
    found = bus(node.options.sysfs)
    assert found.addresses() is None
    node.pci("0000:10:00.0")
    assert found.addresses() == {"0000:10:00.0"}
    node.write("sys/bus/pci/devices/0000:10:00.0/class", "0x040300")
    node.pci("0000:11:00.0")
    assert found.addresses() == {"0000:10:00.0", "0000:11:00.0"}
    node.root.joinpath("sys/bus/pci/devices/0000:11:00.0").rename(node.root / "out")
    assert found.addresses() == {"0000:10:00.0"}


@pytest.mark.parametrize(
    ("numa", "cpus", "expected"),
    [
        pytest.param("0", {"0": "0-7"}, 0, id="node with CPUs"),
        pytest.param("1", {"0": "0-7", "1": ""}, None, id="node without CPUs"),
        pytest.param("2", {"0": "0-7"}, None, id="node that does not exist"),
        pytest.param("-1", {"0": "0-7"}, None, id="firmware does not say"),
        pytest.param("1", {}, 1, id="no tree of nodes"),
        pytest.param("", {}, None, id="empty file"),
    ],
)
def test_numa_node(node: Any, numa: str, cpus: dict[str, str], expected: int | None) -> None:
    """Only a node that exists and has CPUs is told to the kubelet."""
    node.pci("0000:10:00.0", numa_node=numa)
    for number, text in cpus.items():
        node.write(f"sys/devices/system/node/node{number}/cpulist", text + "\n")
    assert bus(node.options.sysfs).numa_node("0000:10:00.0") == expected


def test_numa_node_of_unknown_device(node: Any) -> None:
    """A device without a folder has no node."""
    assert bus(node.options.sysfs).numa_node("0000:99:00.0") is None
