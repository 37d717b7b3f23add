"""What a container gets of its GPUs."""

from dataclasses import replace

import pytest

from deviceplugin.config.amd_options import AmdFlags
from deviceplugin.model import ContainerEdits, Device, DeviceId, DeviceNode, ResourceName
from deviceplugin.vendors.amd.delivery import delivery, variable

GPU = ResourceName("amd.com/gpu")


def device(number: int, part: int | None = None, **changes: object) -> Device:
    """A GPU, or a partition."""
    address = f"0000:{number:02x}:00.0"
    known = Device(
        id=DeviceId(address if part is None else f"{address}-p{part}"),
        resource=GPU,
        index=number,
        pci_address=address,
        parent=None if part is None else DeviceId(address),
        nodes=("/dev/kfd", f"/dev/dri/card{number}{part or 0}", f"/dev/dri/renderD{number}{part}"),
    )
    return replace(known, **changes)  # type: ignore[arg-type]  # keywords of one dataclass


def paths(edits: ContainerEdits) -> list[str]:
    """Device nodes, as the container sees them."""
    return [node.container_path for node in edits.device_nodes]


def test_nodes_once_each_and_rw() -> None:
    """/dev/kfd comes once for all, each card and render node once, read and write, no mknod."""
    devices = [device(1, 0), device(1, 1), device(2)]
    edits = delivery(AmdFlags(), GPU, devices).edits(devices)
    assert paths(edits)[0] == "/dev/kfd"
    assert len(paths(edits)) == len(set(paths(edits))) == 7
    assert {node.permissions for node in edits.device_nodes} == {"rw"}
    assert (edits.env, edits.mounts, edits.cdi_names) == ({}, (), ())


def test_nothing_for_devices_that_are_not_here() -> None:
    """A container whose only GPU is missing is not given /dev/kfd to find no GPU with."""
    assert delivery(AmdFlags(), GPU, []).edits([]) == ContainerEdits()


def test_host_node() -> None:
    """On a simulated machine every node is the same harmless one."""
    one = device(1, attributes={"host_node": "/dev/null"})
    nodes = delivery(AmdFlags(), GPU, [one]).edits([one]).device_nodes
    assert nodes[0] == DeviceNode(container_path="/dev/kfd", host_path="/dev/null")


def test_addresses() -> None:
    """Addresses come once each, in order, under a name that belongs to the resource."""
    flags = AmdFlags(addresses_env=True)
    devices = [device(1, 0), device(1, 1), device(2)]
    name = ResourceName("amd.com/cpx_nps4.shared")
    env = delivery(flags, name, devices).edits(devices).env
    assert env == {"PCIDEVICE_AMD_COM_CPX_NPS4_SHARED": "0000:01:00.0,0000:02:00.0"}
    assert variable(GPU) == "PCIDEVICE_AMD_COM_GPU"


@pytest.mark.parametrize("strategies", [("cdi-cri",), ("cdi-annotations",), ("device-nodes",)])
def test_cdi(strategies: tuple[str, ...]) -> None:
    """Names that a spec resolves are handed out as the runtime takes them, nodes otherwise."""
    flags = AmdFlags(device_list_strategies=strategies)
    devices = [device(1, cdi_names=("amd.com/gpu=3",)), device(2, cdi_names=("amd.com/gpu=1",))]
    made = delivery(flags, GPU, devices)
    edits = made.edits(devices)
    assert made.unmet == ""
    names = ("amd.com/gpu=3", "amd.com/gpu=1")
    assert edits.cdi_names == (names if "cdi-cri" in strategies else ())
    assert list(edits.annotations.values()) == (
        [",".join(names)] if "cdi-annotations" in strategies else []
    )
    assert bool(edits.device_nodes) == ("device-nodes" in strategies)


def test_annotations_of_two_resources_stand_side_by_side() -> None:
    """Other devices have another key, so the kubelet keeps both."""
    flags = AmdFlags(device_list_strategies=("cdi-annotations",))
    one, two = device(1, cdi_names=("amd.com/gpu=0",)), device(2, cdi_names=("amd.com/gpu=1",))
    made = delivery(flags, GPU, [one, two])
    assert made.edits([one]).annotations.keys() != made.edits([two]).annotations.keys()


def test_a_spec_that_is_missing_is_waited_for() -> None:
    """A GPU that no spec names is told with the command that writes one."""
    flags = AmdFlags(device_list_strategies=("cdi-cri",))
    made = delivery(flags, GPU, [device(1, cdi_names=("amd.com/gpu=0",)), device(2)])
    assert "0000:02:00.0" in made.unmet
    assert "1 of 2" in made.unmet
    assert "amd-ctk cdi generate" in made.unmet
    assert delivery(AmdFlags(), GPU, [device(1)]).unmet == ""
