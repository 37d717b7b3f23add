"""What entries of a config mean on a node."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from deviceplugin.config.rules import AllDevices, FirstDevices, ListedDevices, ShareRule
from deviceplugin.model import AllocationRules, Device, ResourceName
from deviceplugin.sharing.plan import plan

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"


def rule(replicas: int = 2, resource: str | None = GPU, where: str = "a", **changes: Any) -> Any:
    """One entry."""
    name = ResourceName(resource) if resource else None
    return ShareRule(resource=name, replicas=replicas, where=where, **changes)


def shape(node: Any) -> Mapping[str, tuple[str, int]]:
    """Name and replicas of each device's target."""
    targets = plan(node.inventory).targets
    return {device: (target.resource, target.replicas) for device, target in targets.items()}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param([], [(GPU, 1)] * 4, id="no-entry"),
        pytest.param([rule(4)], [(GPU, 4)] * 4, id="all"),
        pytest.param([rule(4, None)], [(GPU, 4)] * 4, id="shorthand"),
        pytest.param([rule(1)], [(GPU, 1)] * 4, id="one-replica"),
        pytest.param([rule(2, rename=SHARED)], [(SHARED, 2)] * 4, id="renamed"),
        pytest.param([rule(2, rename_suffix=".shared")], [(SHARED, 2)] * 4, id="suffix"),
        pytest.param(
            [rule(2, rename="nvidia.com/slice", rename_suffix=".shared")],
            [("nvidia.com/slice", 2)] * 4,
            id="rename-outranks-suffix",
        ),
        pytest.param(
            [rule(2, devices=FirstDevices(count=1))], [(GPU, 2), *[(GPU, 1)] * 3], id="first"
        ),
        pytest.param(
            [rule(2, devices=ListedDevices(names=("1", "GPU-3")))],
            [(GPU, 1), (GPU, 2), (GPU, 1), (GPU, 2)],
            id="index-and-id",
        ),
        pytest.param(
            [rule(2, devices=ListedDevices(names=("model:nvidia l4*",)))],
            [(GPU, 2), (GPU, 2), (GPU, 1), (GPU, 1)],
            id="model-in-any-case",
        ),
        pytest.param(
            [
                rule(2, devices=ListedDevices(names=("0",))),
                rule(8, rename=SHARED, devices=ListedDevices(names=("1", "2")), where="b"),
            ],
            [(GPU, 2), (SHARED, 8), (SHARED, 8), (GPU, 1)],
            id="two-entries",
        ),
        pytest.param([rule(2, "nvidia.com/mig-1g.5gb")], [(GPU, 1)] * 4, id="other-resource"),
    ],
)
def test_targets(
    bare_node: Callable[..., Any],
    device: Callable[..., Device],
    rules: list[ShareRule],
    expected: list[tuple[str, int]],
) -> None:
    """Each device gets the name and the units that the first entry for it says."""
    node = bare_node()
    node.config(*rules).scan(
        device(0), device(1), device(2, name="NVIDIA A2"), device(3, name="NVIDIA H100")
    )
    assert list(shape(node).values()) == expected
    assert list(shape(node)) == ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]


@pytest.mark.parametrize(
    ("rules", "parts"),
    [
        pytest.param(
            [rule(devices=ListedDevices(names=("0", "7")))],
            ["a: nvidia.com/gpu: no device here has index 7; here: 0, 1"],
            id="index",
        ),
        pytest.param(
            [rule(devices=ListedDevices(names=("GPU-0", "GPU-9")))],
            ["a: nvidia.com/gpu: device GPU-9 is not on this node"],
            id="id",
        ),
        pytest.param(
            [rule(devices=ListedDevices(names=("0", "model:*H100*")))],
            ["no device here has a model like '*H100*'; here: 'NVIDIA L4'"],
            id="model",
        ),
        pytest.param(
            [rule(devices=FirstDevices(count=3))],
            ["the first 3 devices are wanted and 2 are known here"],
            id="count",
        ),
        pytest.param(
            [rule(), rule(resource="nvidia.com/gpus", where="b")],
            ["gpus: no device of nvidia.com/gpus is on this node; here: nvidia.com/gpu"],
            id="resource",
        ),
        pytest.param(
            [rule(), rule(4, devices=ListedDevices(names=("model:*L4",)), where="b")],
            ["b: nvidia.com/gpu: GPU-0, GPU-1 is shared by a already, which comes first"],
            id="overlap",
        ),
        pytest.param([rule(devices=AllDevices())], [], id="all-met"),
    ],
)
def test_unmet(new_node: Callable[..., Any], rules: list[ShareRule], parts: list[str]) -> None:
    """What this node lacks is said for its entry, and the rest of the entry is served."""
    node = new_node(gpus=2).config(*rules)
    lines = [str(unmet) for unmet in node.outcome.unmet]
    assert len(lines) == len(parts)
    assert all(part in line for part, line in zip(parts, lines, strict=True))
    assert shape(node)["GPU-0"] == (GPU, 2)


def test_nothing_is_unmet_before_the_first_scan(bare_node: Callable[..., Any]) -> None:
    """While the driver has not answered nobody knows what is absent."""
    node = bare_node().config(rule())
    assert node.outcome.unmet == ()
    node.scan()
    assert list(map(str, node.outcome.unmet)) == [f"a: {GPU}: no device of {GPU} is on this node"]


def test_shorthand_shares_every_resource(
    bare_node: Callable[..., Any], device: Callable[..., Device]
) -> None:
    """The short form means each resource that is there, those of partitions too."""
    part = device(1, parent="GPU-0", resource="nvidia.com/mig-1g.5gb")
    node = bare_node().config(rule(3, None)).scan(device(0), part)
    assert shape(node) == {"GPU-0": (GPU, 3), "GPU-1": ("nvidia.com/mig-1g.5gb", 3)}


def test_missing_device_keeps_its_place(new_node: Callable[..., Any]) -> None:
    """The loss of GPU 0 does not make GPU 2 one of the first two."""
    node = new_node(gpus=3)
    node.share(2, devices=FirstDevices(count=2)).scan(*node.devices[1:])
    assert [replicas for _, replicas in shape(node).values()] == [2, 2, 1]
    assert node.outcome.unmet == ()


def test_index_means_the_device_that_has_it_now(
    new_node: Callable[..., Any], device: Callable[..., Device]
) -> None:
    """After indexes moved up an index means the present device, not the lost one."""
    node = new_node(gpus=2)
    node.scan(device(0, id="GPU-1", pci_address="0000:01:00.0"))
    node.share(4, devices=ListedDevices(names=("0",)))
    assert shape(node) == {"GPU-0": (GPU, 1), "GPU-1": (GPU, 4)}


@pytest.mark.parametrize(
    ("replicas", "fails"),
    [pytest.param(1, False, id="whole"), pytest.param(2, True, id="shared")],
)
def test_rule_on_large_requests_is_for_shares(
    new_node: Callable[..., Any], replicas: int, *, fails: bool
) -> None:
    """A request for two whole GPUs is never refused by the rule about shares."""
    node = new_node()
    node.config(rule(replicas), allocation=AllocationRules(fail_requests_greater_than_one=True))
    assert node.views[ResourceName(GPU)].rules.fail_requests_greater_than_one is fails
