"""What an Allocate answer holds under each strategy."""

from collections.abc import Callable

import pytest

from deviceplugin.config.nvidia_options import NvidiaFlags
from deviceplugin.model import ContainerEdits, Device
from deviceplugin.vendors.nvidia.delivery import delivery

Make = Callable[..., Device]

UUID_NAMES = "nvidia.com/gpu=GPU-{n}"
INDEX_NAMES = "nvidia.com/gpu={n}"
PEER_UUID = "k8s.device-plugin.nvidia.com/gpu=GPU-{n}"
PEER_INDEX = "k8s.device-plugin.nvidia.com/gpu={n}"


def flags(*strategies: str, **others: object) -> NvidiaFlags:
    """Flags with these list strategies."""
    return NvidiaFlags(device_list_strategies=strategies, **others)


def with_cdi(make: Make, count: int, *patterns: str) -> list[Device]:
    """GPUs whose CDI names follow the patterns."""
    return [
        make(n, cdi_names=tuple(pattern.format(n=n) for pattern in patterns)) for n in range(count)
    ]


@pytest.mark.parametrize(
    ("strategy", "value"), [("uuid", "GPU-0,GPU-1"), ("index", "0,1")], ids=["uuid", "index"]
)
def test_envvar(make_device: Make, strategy: str, value: str) -> None:
    """The variable lists the GPUs by UUID or index, in order."""
    devices = [make_device(0), make_device(1)]
    edits = delivery(flags("envvar", device_id_strategy=strategy), devices).edits(devices)
    assert edits.env == {"NVIDIA_VISIBLE_DEVICES": value}
    assert edits.mounts == ()
    assert edits.cdi_names == ()


def test_volume_mounts(make_device: Make) -> None:
    """Mounts of /dev/null spell the list, and the variable points to them."""
    devices = [make_device(0), make_device(3)]
    edits = delivery(flags("volume-mounts"), devices).edits(devices)
    assert edits.env == {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}
    assert [(mount.host_path, mount.container_path) for mount in edits.mounts] == [
        ("/dev/null", "/var/run/nvidia-container-devices/GPU-0"),
        ("/dev/null", "/var/run/nvidia-container-devices/GPU-3"),
    ]


def test_mounts_outrank_the_variable(make_device: Make) -> None:
    """With both, the variable points to the mounts, as NVIDIA's plugin has it."""
    devices = [make_device(0)]
    edits = delivery(flags("envvar", "volume-mounts"), devices).edits(devices)
    assert edits.env == {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}
    assert len(edits.mounts) == 1


@pytest.mark.parametrize(
    ("asked", "visible", "paths"),
    [
        pytest.param(
            None,
            True,
            ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1"],
            id="visible: by default",
        ),
        pytest.param(None, False, [], id="not visible: none by default"),
        pytest.param(False, True, [], id="switched off"),
        pytest.param(
            True,
            True,
            ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1"],
            id="switched on",
        ),
        pytest.param(True, False, ["/dev/nvidia0", "/dev/nvidia1"], id="switched on, not visible"),
    ],
)
def test_device_nodes(
    make_device: Make, paths: list[str], *, asked: bool | None, visible: bool
) -> None:
    """Device nodes come once each, readable and writable, control nodes first."""
    changes = {} if visible else {"nodes": ()}
    devices = [make_device(n, **changes) for n in range(2)]
    edits = delivery(flags("envvar", pass_device_specs=asked), devices).edits(devices)
    assert [node.container_path for node in edits.device_nodes] == paths
    assert {node.permissions for node in edits.device_nodes} <= {"rw"}


@pytest.mark.parametrize(
    ("roots", "host"),
    [
        pytest.param({}, "/dev/nvidia0", id="root"),
        pytest.param({"nvidia_driver_root": "/run/nvidia"}, "/run/nvidia/dev/nvidia0", id="driver"),
        pytest.param(
            {"nvidia_driver_root": "/run/nvidia", "nvidia_dev_root": "/"},
            "/dev/nvidia0",
            id="dev root of its own",
        ),
        pytest.param({"nvidia_dev_root": "/x/"}, "/x/dev/nvidia0", id="slash at the end"),
    ],
)
def test_dev_root(make_device: Make, roots: dict[str, str], host: str) -> None:
    """The dev root stands before the host's path only."""
    device = make_device(0, nodes=("/dev/nvidia0",))
    (node,) = delivery(flags("envvar", **roots), [device]).edits([device]).device_nodes
    assert (node.container_path, node.host_path) == ("/dev/nvidia0", host)


def test_simulated_nodes(make_device: Make) -> None:
    """The nodes of a simulated GPU are /dev/null on the host."""
    device = make_device(0, attributes={"minor": "0", "host_node": "/dev/null"})
    nodes = delivery(flags("envvar"), [device]).edits([device]).device_nodes
    assert {node.host_path for node in nodes} == {"/dev/null"}


@pytest.mark.parametrize(
    ("patterns", "strategy", "name"),
    [
        ((UUID_NAMES, INDEX_NAMES, PEER_UUID), "uuid", "nvidia.com/gpu=GPU-1"),
        ((UUID_NAMES, INDEX_NAMES, PEER_UUID), "index", "nvidia.com/gpu=1"),
        ((INDEX_NAMES, PEER_UUID), "uuid", "nvidia.com/gpu=1"),
        ((UUID_NAMES, PEER_INDEX), "index", "nvidia.com/gpu=GPU-1"),
        ((PEER_UUID, PEER_INDEX), "uuid", "k8s.device-plugin.nvidia.com/gpu=GPU-1"),
        ((PEER_INDEX,), "uuid", "k8s.device-plugin.nvidia.com/gpu=1"),
    ],
    ids=[
        "by UUID",
        "by index",
        "kind comes before strategy",
        "kind comes before strategy, index",
        "the incumbent's kind",
        "the last choice",
    ],
)
def test_cdi_choice(make_device: Make, patterns: tuple[str, ...], strategy: str, name: str) -> None:
    """The first kind that resolves every GPU is taken, by the strategy, else by the other."""
    devices = with_cdi(make_device, 2, *patterns)
    chosen = delivery(flags("cdi-cri", device_id_strategy=strategy), devices)
    assert chosen.unmet == ""
    assert chosen.edits(devices[1:]) == ContainerEdits(cdi_names=(name,))


def test_kind_must_resolve_every_gpu(make_device: Make) -> None:
    """A kind that lacks one GPU is passed over for all of them."""
    devices = [
        make_device(0, cdi_names=("nvidia.com/gpu=GPU-0", PEER_UUID.format(n=0))),
        make_device(1, cdi_names=(PEER_UUID.format(n=1),)),
    ]
    edits = delivery(flags("cdi-cri"), devices).edits(devices)
    assert edits.cdi_names == (PEER_UUID.format(n=0), PEER_UUID.format(n=1))


@pytest.mark.parametrize("strategy", ["cdi-cri", "cdi-annotations"])
def test_waiting_for_spec(make_device: Make, strategy: str) -> None:
    """Without a spec the resource waits, says which names are missing, and hands none out."""
    devices = [*with_cdi(make_device, 1, UUID_NAMES), make_device(1)]
    chosen = delivery(flags(strategy), devices)
    assert chosen.unmet.startswith("waiting for CDI spec")
    assert "1 of 2" in chosen.unmet
    assert "nvidia.com/gpu=GPU-1" in chosen.unmet
    assert "nvidia-ctk cdi generate" in chosen.unmet
    assert chosen.edits(devices) == ContainerEdits()


def test_no_gpu_needs_no_spec() -> None:
    """A resource without GPUs waits for nothing."""
    assert delivery(flags("cdi-cri"), []).unmet == ""
    assert delivery(flags("cdi-annotations"), []).edits([]) == ContainerEdits()


def test_cdi_alone_is_alone(make_device: Make) -> None:
    """CDI strategies alone set no variable and pass no device node, even when asked to."""
    devices = with_cdi(make_device, 2, UUID_NAMES)
    edits = delivery(flags("cdi-cri", "cdi-annotations", pass_device_specs=True), devices).edits(
        devices
    )
    assert (edits.env, edits.mounts, edits.device_nodes) == ({}, (), ())
    assert edits.cdi_names == ("nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-1")
    assert list(edits.annotations.values()) == ["nvidia.com/gpu=GPU-0,nvidia.com/gpu=GPU-1"]


def test_cdi_beside_the_variable(make_device: Make) -> None:
    """Mixed with another strategy both are handed out."""
    devices = with_cdi(make_device, 1, UUID_NAMES)
    edits = delivery(flags("cdi-cri", "envvar"), devices).edits(devices)
    assert edits.env == {"NVIDIA_VISIBLE_DEVICES": "GPU-0"}
    assert edits.cdi_names == ("nvidia.com/gpu=GPU-0",)
    assert len(edits.device_nodes) == 3


def test_annotation_keys(make_device: Make) -> None:
    """The key is the same for the same GPUs and another for others, and a legal one."""
    devices = with_cdi(make_device, 3, UUID_NAMES)
    chosen = delivery(flags("cdi-annotations", cdi_annotation_prefix="cdi.k8s.io/"), devices)
    (first,) = chosen.edits(devices[:1]).annotations
    (again,) = chosen.edits(devices[:1]).annotations
    (other,) = chosen.edits(devices[1:]).annotations
    assert first == again != other
    prefix, _, name = first.partition("/")
    assert prefix == "cdi.k8s.io"
    assert len(name) <= 63
    assert set((chosen.edits(devices[:1]) | chosen.edits(devices[1:])).annotations) == {
        first,
        other,
    }


def test_equal_deliveries_are_equal(make_device: Make) -> None:
    """A delivery is a value: the same flags and GPUs make the same, and nothing is published."""
    devices = with_cdi(make_device, 2, UUID_NAMES)
    assert delivery(flags("cdi-cri"), devices) == delivery(flags("cdi-cri"), list(devices))
