"""What is found on every kind of tree that drivers show."""

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.backend import BackendOptions, BackendUnavailableError
from deviceplugin.model import BackendState
from deviceplugin.simulation.machine import AmdGpu
from deviceplugin.vendors.amd.discover import Look

MakeNode = Callable[..., Any]
MakeGpu = Callable[..., AmdGpu]


def test_whole_gpus(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """A GPU in SPX is one device: its PCI address, its own nodes, its NUMA node and memory."""
    node = make_node(make_gpu(0), make_gpu(1))
    first, second = node.scan().devices
    assert (first.id, second.id) == ("0000:05:00.0", "0000:15:00.0")
    assert first.nodes == ("/dev/kfd", "/dev/dri/card1", "/dev/dri/renderD128")
    assert second.nodes == ("/dev/kfd", "/dev/dri/card9", "/dev/dri/renderD136")
    assert (first.numa_node, second.numa_node) == (0, 1)
    assert (first.layout, first.parent, first.resource) == ("spx_nps1", None, "amd.com/gpu")
    assert first.attributes["memory_mib"] == "196592"
    assert (first.index, second.index) == (0, 1)
    assert node.scan().problems == ()


@pytest.mark.parametrize(
    "variant",
    [
        pytest.param({}, id="plain"),
        pytest.param({"separator": "."}, id="dotted-names"),
        pytest.param({"high_bits": True}, id="number-in-high-bits"),
        pytest.param({"no_domain": True}, id="no-domain"),
        pytest.param({"no_memory": True}, id="no-memory-banks"),
        pytest.param({"own_ids": True}, id="unique-ids-of-their-own"),
        pytest.param({"no_numa": True}, id="numa-unknown-to-pci"),
    ],
)
def test_partitions_on_each_kind_of_driver(
    make_node: MakeNode, make_gpu: MakeGpu, variant: dict[str, Any]
) -> None:
    """All 24 partitions are found, each with nodes of its own, under the GPU that they are of."""
    scan = make_node(*(make_gpu(n, "CPX/NPS4") for n in range(3)), **variant).scan()
    wanted = [f"0000:{5 + 16 * n:02x}:00.0-p{part}" for n in range(3) for part in range(8)]
    assert [device.id for device in scan.devices] == wanted
    renders = [device.nodes[2] for device in scan.devices]
    assert renders == [f"/dev/dri/renderD{128 + number}" for number in range(24)]
    assert {device.parent for device in scan.devices} == {wanted[n][:-3] for n in (0, 8, 16)}
    assert {device.layout for device in scan.devices} == {"cpx_nps4"}
    assert [device.numa_node for device in scan.devices] == [0] * 8 + [1] * 8 + [0] * 8
    assert scan.problems == ()


def test_a_domain_above_zero(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """GPUs at the same bus and device in two PCI domains are two GPUs."""
    low = make_gpu(0, pci_address="0000:05:00.0")
    high = make_gpu(1, "CPX/NPS1", pci_address="0001:05:00.0")
    ids = make_node(low, high).ids()
    assert ids == ["0000:05:00.0", *(f"0001:05:00.0-p{n}" for n in range(8))]


def test_without_a_domain_only_one_can_be_meant(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """A driver that tells no domain is believed where one function fits, in whatever domain."""
    assert make_node(make_gpu(0, pci_address="0002:05:00.0"), no_domain=True).ids() == [
        "0002:05:00.0"
    ]


def test_no_partition_files(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """GPUs that cannot be divided (MI210, guests, consumer cards) are whole, without a layout."""
    scan = make_node(make_gpu(0, ""), make_gpu(1, "", hive=None)).scan()
    assert [(device.id, device.layout) for device in scan.devices] == [
        ("0000:05:00.0", ""),
        ("0000:15:00.0", ""),
    ]


def test_partitions_without_a_word_for_them(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """Where KFD shows parts and the PCI function has no partition files, the parts are served."""
    node = make_node(make_gpu(0, "CPX/NPS1"))
    for name in ("current_compute_partition", "current_memory_partition"):
        (node.pci(0) / name).unlink()
    scan = node.scan()
    assert len(scan.devices) == 8
    assert {device.layout for device in scan.devices} == {"partitioned"}


def test_63_of_64(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """A partition that KFD does not show is told; all others are served under their own ids."""
    node = make_node(*(make_gpu(n, "CPX/NPS1") for n in range(8)))
    shutil.rmtree(node.kfd / str(2 + 8 * 3 + 5))
    scan = node.scan()
    assert len(scan.devices) == 63
    assert "0000:35:00.0-p5" not in {device.id for device in scan.devices}
    (problem,) = scan.problems
    assert problem.startswith("1 of the 8 partitions of 0000:35:00.0")
    assert {device.attributes["partitions"] for device in scan.devices} == {"8"}


def test_mixed_modes_on_one_node(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """Whole GPUs and partitions of others stand side by side; phantom partitions are nothing."""
    ids = make_node(make_gpu(0), make_gpu(1, "DPX/NPS1"), make_gpu(2)).ids()
    assert ids == ["0000:05:00.0", "0000:15:00.0-p0", "0000:15:00.0-p1", "0000:25:00.0"]


def test_no_render_node_in_kfd(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """A whole GPU has its own drm folder to tell; a partition cannot be used, and that is said."""
    scan = make_node(make_gpu(0), make_gpu(1, "DPX/NPS1"), no_render=True).scan()
    assert [device.id for device in scan.devices] == ["0000:05:00.0"]
    assert len([line for line in scan.problems if "render node" in line]) == 2


def test_kfd_hides_its_nodes(
    make_node: MakeNode, make_gpu: MakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without access to the GPUs whole ones are served by PCI and drm, and partitions are told."""
    node = make_node(make_gpu(0), make_gpu(1, "CPX/NPS1"), make_gpu(2, ""))
    opened = os.open

    def denied(path: Any, *rest: Any, **more: Any) -> int:
        place = Path(path)
        if place.name == "properties" and int(place.parent.name) > 1:
            raise PermissionError(1, "Operation not permitted", str(path))
        return opened(path, *rest, **more)

    monkeypatch.setattr(os, "open", denied)
    scan = node.scan()
    assert [device.id for device in scan.devices] == ["0000:05:00.0", "0000:25:00.0"]
    assert [device.numa_node for device in scan.devices] == [0, 0]
    assert scan.devices[0].nodes == ("/dev/kfd", "/dev/dri/card1", "/dev/dri/renderD128")
    assert scan.links.weights == {}
    (problem,) = scan.problems
    assert "0000:15:00.0 (cpx_nps1)" in problem
    assert "amd-partitions" in problem


def test_a_function_without_a_kfd_node(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """A card that KFD does not know is no GPU for compute; its neighbour is not touched."""
    node = make_node(make_gpu(0), make_gpu(1))
    shutil.rmtree(node.kfd / "2")
    scan = node.scan()
    assert [device.id for device in scan.devices] == ["0000:15:00.0"]
    assert "0000:05:00.0: KFD has no node for it" in scan.problems[0]


def test_nothing_is_inherited(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """A GPU without a drm folder gets nobody else's nodes."""
    node = make_node(make_gpu(0), make_gpu(1), make_gpu(2))
    shutil.rmtree(node.pci(1) / "drm")
    shutil.rmtree(node.kfd / "3")
    devices = node.scan().devices
    assert [device.id for device in devices] == ["0000:05:00.0", "0000:25:00.0"]
    nodes = [path for device in devices for path in device.nodes if "render" in path]
    assert len(set(nodes)) == len(nodes)


def test_two_nodes_of_one_render_minor(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """A node that names another GPU's render node is left out, and the other one keeps it."""
    node = make_node(make_gpu(0, "DPX/NPS1"), make_gpu(1))
    text = (node.kfd / "3/properties").read_text()
    (node.kfd / "3/properties").write_text(text.replace("minor 129", "minor 136"))
    scan = node.scan()
    assert [device.id for device in scan.devices] == ["0000:05:00.0-p0", "0000:15:00.0"]
    assert any("names the render node of 0000:15:00.0" in line for line in scan.problems)


PROPERTIES = {
    "keys in reverse": lambda text: "\n".join(reversed(text.splitlines())),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "tabs and blanks": lambda text: text.replace(" ", " \t ").replace("\n", "  \n\n"),
    "longer keys first": lambda text: f"x_domain 7\nmy_location_id 99\nsub_simd_count 0\n{text}",
    "a key twice": lambda text: f"{text}\nlocation_id 0\ndomain 9\n",
    "junk lines": lambda text: f"\x00\xff\n= 3\nhello\n{text}\nno end",
    "huge numbers": lambda text: f"{text}\nlocal_mem_size 99999999999999999999999\n",
}


@pytest.mark.parametrize("change", PROPERTIES.values(), ids=PROPERTIES)
def test_properties_in_any_shape(
    make_node: MakeNode, make_gpu: MakeGpu, change: Callable[[str], str]
) -> None:
    """Order, line ends and further lines of a properties file change nothing."""
    node = make_node(make_gpu(0, "DPX/NPS1"), make_gpu(1))
    before = node.scan()
    for path in node.kfd.glob("*/properties"):
        path.write_text(change(path.read_text()))
    assert node.scan() == before


BROKEN = {
    "a megabyte": b"simd_count 1216\n" * 65_536,
    "binary": bytes(range(256)) * 4,
    "empty": b"",
    "negative location": b"simd_count 1216\nlocation_id -5\ndrm_render_minor 128\n",
    "location of nothing": b"simd_count 1216\nlocation_id 4294967295\ndrm_render_minor 128\n",
    "huge location": b"simd_count 1216\nlocation_id 99999999999\ndrm_render_minor 128\n",
    "no location": b"simd_count 1216\ndrm_render_minor 128\n",
    "huge domain": b"simd_count 1216\nlocation_id 1280\ndomain 18446744073709551615\n",
    "a CPU": b"cpu_cores_count 96\nsimd_count 0\n",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_node_is_its_own(make_node: MakeNode, make_gpu: MakeGpu, content: bytes) -> None:
    """The GPU behind a properties file that is none is told; the other one is as before."""
    node = make_node(make_gpu(0), make_gpu(1))
    _, neighbour = node.scan().devices
    (node.kfd / "2/properties").write_bytes(content)
    scan = node.scan()
    assert [replace(device, index=1) for device in scan.devices] == [neighbour]
    assert any("0000:05:00.0" in line or "KFD node 2" in line for line in scan.problems)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to itself"])
def test_what_is_no_file(make_node: MakeNode, make_gpu: MakeGpu, kind: str) -> None:
    """A pipe in an attribute's place does not block a scan, nor does anything else."""
    node = make_node(make_gpu(0), make_gpu(1))
    path = node.kfd / "2/properties"
    path.unlink()
    {"pipe": os.mkfifo, "folder": os.mkdir}.get(kind, lambda each: each.symlink_to(each))(path)
    assert node.ids() == ["0000:15:00.0"]


def test_numa_node_of_no_cpu(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """A NUMA node that does not exist here is unknown, never -1 and never a guess."""
    node = make_node(make_gpu(0))
    (node.pci(0) / "numa_node").write_text("7\n")
    shutil.rmtree(node.kfd / "2/io_links")
    assert node.scan().devices[0].numa_node is None


@pytest.mark.parametrize(
    ("broken", "state", "words"),
    [
        pytest.param("module/amdgpu", BackendState.READY, "", id="built-in-driver"),
        pytest.param(
            "module/amdgpu bus/pci/drivers/amdgpu",
            BackendState.NO_DRIVER,
            "amdgpu is not loaded (2 AMD GPUs on the PCI bus)",
            id="module-not-loaded",
        ),
        pytest.param("class/kfd", BackendState.NO_DRIVER, "without KFD", id="no-kfd"),
        pytest.param(".", BackendState.NO_DRIVER, "is no sysfs", id="no-sysfs"),
    ],
)
def test_states(
    make_node: MakeNode, make_gpu: MakeGpu, broken: str, state: BackendState, words: str
) -> None:
    """Each part of the driver that is not there is a state that says so."""
    node = make_node(make_gpu(0), make_gpu(1))
    for place in broken.split():
        shutil.rmtree(node.root / "sys" / place)
    if state is BackendState.READY:
        assert len(node.ids()) == 2
        return
    with pytest.raises(BackendUnavailableError) as caught:
        node.scan()
    assert caught.value.state is state
    assert words in caught.value.detail


def test_no_gpu_at_all(make_node: MakeNode) -> None:
    """The module without a GPU is a state of its own."""
    node = make_node()
    with pytest.raises(BackendUnavailableError) as caught:
        node.scan()
    assert caught.value.state is BackendState.NO_DEVICES


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    """A wrong --sysfs is named."""
    look = Look(options=BackendOptions(sysfs=tmp_path / "none", devfs=tmp_path))
    with pytest.raises(BackendUnavailableError, match="--sysfs"):
        look.scan()


def test_empty_kfd_waits_for_the_gpus_on_the_bus(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """The bus shows what the driver does not yet: the first list will wait for it."""
    node = make_node(make_gpu(0))
    for path in node.kfd.iterdir():
        shutil.rmtree(path)
    scan = node.scan()
    assert scan.devices == ()
    assert scan.bus == {"0000:05:00.0"}


def test_a_gpu_given_to_a_guest_is_not_ours(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """One bound to vfio-pci is neither found nor waited for."""
    node = make_node(make_gpu(0), make_gpu(1))
    node.tree.unload()
    (node.pci(0) / "driver").symlink_to("../../drivers/vfio-pci")
    assert node.look.pci.bus.addresses() == {"0000:15:00.0"}


def test_repartition_keeps_ids_stable(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """To CPX and back the GPU has the id of before, and its neighbour is not touched."""
    node = make_node(make_gpu(0), make_gpu(1))
    before = node.scan()
    node.tree.repartition(0, "CPX", "NPS1")
    divided = node.scan()
    assert len(divided.devices) == 9
    assert divided.devices[-1].id == "0000:15:00.0"
    node.tree.repartition(0, "SPX", "NPS1")
    again = node.scan()
    assert [replace(device, attributes={}) for device in again.devices] == [
        replace(device, attributes={}) for device in before.devices
    ]


def test_partition_modes_are_read_only_after_a_change(
    make_node: MakeNode, make_gpu: MakeGpu
) -> None:
    """Reading them may wake a GPU: it is done when KFD's generation rose, and not before."""
    node = make_node(make_gpu(0))
    node.scan()
    mode = node.pci(0) / "current_compute_partition"
    mode.write_text("CPX\n")
    assert node.scan().devices[0].layout == "spx_nps1"
    generation = node.tree.kfd / "generation_id"
    generation.write_text("99\n")
    assert node.scan().devices[0].layout == "cpx_nps1"


def test_links(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """The lightest link of each pair counts; parts of one GPU are nearest."""
    node = make_node(make_gpu(0, "DPX/NPS1"), make_gpu(1, "DPX/NPS1"), make_gpu(2, "", hive=None))
    links = node.scan().links
    devices = [device.id for device in node.scan().devices]
    p0, p1, other, _, alone = devices
    assert links.weight(p0, p1) == 13
    assert links.weight(p1, other) == 41
    assert links.weight(p0, alone) == 40
    assert links.weight(other, alone) == 72


def test_groups_of_render_nodes(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """The group that owns a render node is told, root's is not worth telling."""
    node = make_node(make_gpu(0), make_gpu(1))
    os.chown(node.root / "dev/dri/renderD136", 0, 109)
    first, second = node.scan().devices
    assert "gid" not in first.attributes
    assert second.attributes["gid"] == "109"


def test_a_scan_of_64_partitions_is_quick(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """With the links known, a look takes some milliseconds."""
    node = make_node(*(make_gpu(n, "CPX/NPS4") for n in range(8)))
    node.scan()
    spent = []
    for _ in range(5):
        begun = time.perf_counter()
        assert len(node.scan().devices) == 64
        spent.append(time.perf_counter() - begun)
    assert min(spent) < 0.06


def test_cdi_names_by_render_node(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """A name of a spec means the GPU whose render node it has, whatever its number; "all" none."""
    node = make_node(make_gpu(0), make_gpu(1))
    folder = node.root / "cdi"
    folder.mkdir()
    nodes = {"0": [136], "1": [128], "all": [128, 136]}
    devices = [
        {
            "name": name,
            "containerEdits": {"deviceNodes": [{"path": f"/dev/dri/renderD{n}"} for n in minors]},
        }
        for name, minors in nodes.items()
    ]
    spec = {"cdiVersion": "0.6.0", "kind": "amd.com/gpu", "devices": devices}
    (folder / "amd.json").write_text(json.dumps(spec))
    node.look = Look(options=replace(node.look.options, cdi_dirs=(folder,)))
    names = {device.id: device.cdi_names for device in node.scan().devices}
    assert names == {"0000:05:00.0": ("amd.com/gpu=1",), "0000:15:00.0": ("amd.com/gpu=0",)}
