"""Which units we ask the kubelet to take."""

import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deviceplugin.allocation.preferred import preferred
from deviceplugin.model import AllocationRules, DeviceId, Links, Policy, ResourceView

MakeView = Callable[..., ResourceView]
PACKED = AllocationRules(policy=Policy.PACKED)


def _ids(view: ResourceView, *without: str) -> list[str]:
    return [unit.id for unit in view.units if unit.id not in without]


@pytest.mark.parametrize(
    ("taken", "must", "size", "answer"),
    [
        pytest.param([], [], 1, ["GPU-0"], id="lowest-index"),
        pytest.param(["GPU-0"], [], 2, ["GPU-1", "GPU-2"], id="lowest-free-indexes"),
        pytest.param([], ["GPU-3"], 2, ["GPU-3", "GPU-0"], id="must-include-first"),
        pytest.param([], ["GPU-3", "GPU-1"], 2, ["GPU-1", "GPU-3"], id="must-include-is-enough"),
        pytest.param([], ["GPU-3", "GPU-1"], 1, ["GPU-1"], id="must-include-is-too-much"),
        pytest.param([], [], 9, ["GPU-0", "GPU-1", "GPU-2", "GPU-3"], id="more-than-there-are"),
        pytest.param([], [], 0, [], id="none-asked"),
        pytest.param([], [], -1, [], id="less-than-none-asked"),
        pytest.param(["GPU-0", "GPU-1", "GPU-2", "GPU-3"], [], 2, [], id="none-available"),
        pytest.param(["GPU-0"], ["GPU-0"], 1, ["GPU-0"], id="must-include-is-not-available"),
    ],
)
def test_whole_devices(
    make_view: MakeView, taken: list[str], must: list[str], size: int, answer: list[str]
) -> None:
    """Whole devices come by index, after what must be included, up to the size asked."""
    view = make_view(4)
    assert preferred(view, _ids(view, *taken), must, size) == answer


@pytest.mark.parametrize(
    ("nodes", "taken", "must", "size", "answer"),
    [
        pytest.param([0, 0, 1, 1], ["GPU-0"], [], 2, ["GPU-2", "GPU-3"], id="a-node-that-fits"),
        pytest.param([0, 0, 0, 1], [], [], 1, ["GPU-3"], id="the-node-with-least-to-spare"),
        pytest.param([0, 0, 1, 1], [], [], 2, ["GPU-0", "GPU-1"], id="equal-nodes-lowest-first"),
        pytest.param([0, 0, 1, 1], [], [], 3, ["GPU-0", "GPU-1", "GPU-2"], id="no-node-fits"),
        pytest.param([0, 0, 1, 1], [], ["GPU-3"], 2, ["GPU-3", "GPU-2"], id="beside-the-must"),
        pytest.param([0, 0, 1, 1], [], ["GPU-3"], 3, ["GPU-3", "GPU-0", "GPU-1"], id="must-full"),
        pytest.param([None] * 4, ["GPU-0"], [], 2, ["GPU-1", "GPU-2"], id="nodes-unknown"),
    ],
)
def test_whole_devices_of_one_numa_node(
    make_view: MakeView,
    nodes: list[int | None],
    taken: list[str],
    must: list[str],
    size: int,
    answer: list[str],
) -> None:
    """One NUMA node serves the request where one can, the fullest of those that can."""
    view = make_view(4, nodes=nodes)
    assert preferred(view, _ids(view, *taken), must, size) == answer


@pytest.mark.parametrize(
    ("policy", "taken", "size", "answer"),
    [
        pytest.param("distributed", [], 1, ["GPU-0::0"], id="distributed-starts-at-index-0"),
        pytest.param("distributed", ["GPU-0::0"], 1, ["GPU-1::0"], id="distributed-emptiest"),
        pytest.param(
            "distributed",
            ["GPU-0::0", "GPU-1::0", "GPU-1::1"],
            1,
            ["GPU-2::0"],
            id="distributed-untouched",
        ),
        pytest.param("packed", [], 1, ["GPU-0::0"], id="packed-starts-at-index-0"),
        pytest.param("packed", ["GPU-1::0"], 1, ["GPU-1::1"], id="packed-fullest"),
        pytest.param(
            "packed", ["GPU-1::0", "GPU-1::1", "GPU-1::2"], 1, ["GPU-0::0"], id="packed-full-is-out"
        ),
        pytest.param(
            "packed", ["GPU-2::0"], 2, ["GPU-2::1", "GPU-0::0"], id="packed-still-on-two-devices"
        ),
        pytest.param(
            "distributed",
            [],
            4,
            ["GPU-0::0", "GPU-1::0", "GPU-2::0", "GPU-0::1"],
            id="distributed-goes-round",
        ),
    ],
)
def test_shares_by_policy(
    make_view: MakeView, policy: str, taken: list[str], size: int, answer: list[str]
) -> None:
    """The next share comes from the emptiest (distributed) or fullest (packed) device."""
    view = make_view(3, 3, rules=AllocationRules(policy=Policy(policy)))
    assert preferred(view, _ids(view, *taken), [], size) == answer


@pytest.mark.parametrize("policy", list(Policy))
def test_shares_avoid_the_devices_that_must_be_included(
    make_view: MakeView, policy: Policy
) -> None:
    """A share that must be included counts: the next ones land on other devices."""
    view = make_view(3, 4, rules=AllocationRules(policy=policy))
    answer = preferred(view, _ids(view), ["GPU-1::2"], 3)
    assert answer == ["GPU-1::2", "GPU-0::0", "GPU-2::0"]


def test_units_that_turned_unhealthy_come_after_healthy_ones(make_view: MakeView) -> None:
    """The kubelet's view may lag: what it offers though it failed is taken only if needed."""
    view = make_view(3, unhealthy=["GPU-0"])
    assert preferred(view, _ids(view), [], 2) == ["GPU-1", "GPU-2"]
    assert preferred(view, _ids(view), [], 3) == ["GPU-1", "GPU-2", "GPU-0"]


def test_unknown_ids_come_last(make_view: MakeView) -> None:
    """Ids we never listed are tolerated, and used only to reach the size."""
    view = make_view(2, unhealthy=["GPU-1"])
    offered = ["A-foreign", *_ids(view)]
    assert preferred(view, offered, [], 2) == ["GPU-0", "GPU-1"]
    assert preferred(view, offered, ["Z-foreign"], 9) == [
        "Z-foreign",
        "GPU-0",
        "GPU-1",
        "A-foreign",
    ]


def test_a_resource_without_units_answers_all_the_same(make_view: MakeView) -> None:
    """An empty view never makes the call fail."""
    assert preferred(make_view(0), ["GPU-0"], [], 1) == ["GPU-0"]


SETTINGS = settings(
    derandomize=True, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SETTINGS
@given(data=st.data())
def test_the_answer_is_the_right_size_distinct_and_stable(
    make_view: MakeView, data: st.DataObject
) -> None:
    """Whatever is offered: exact size, nothing twice, must-include first, spread, repeatable."""
    view = make_view(
        data.draw(st.integers(1, 5)),
        data.draw(st.integers(1, 4)),
        nodes=[0, 1, 1, None, 0],
        rules=AllocationRules(policy=data.draw(st.sampled_from(Policy))),
    )
    available = data.draw(st.lists(st.sampled_from([*_ids(view), "foreign"]), unique=True))
    must = data.draw(st.lists(st.sampled_from(available), unique=True)) if available else []
    size = data.draw(st.integers(0, len(available) + 2))
    answer = preferred(view, available, must, size)

    assert len(answer) == len(set(answer)) == min(size, len(available))
    assert set(answer) <= set(available)
    assert set(answer[: len(must)]) <= set(must)
    assert answer == preferred(view, data.draw(st.permutations(available)), must[::-1], size)
    _assert_spread(answer, available, must)


def _assert_spread(answer: list[str], available: list[str], must: list[str]) -> None:
    """No device is used twice by choice while another with a free unit is unused."""
    used = Counter(unit.split("::")[0] for unit in answer)
    owed = Counter(unit.split("::")[0] for unit in must)
    unused = {unit.split("::")[0] for unit in available if unit != "foreign"} - used.keys()
    chosen_twice = {
        device for device, count in used.items() if count > max(1, owed[device]) and len(must) == 0
    }
    assert not (unused and chosen_twice)


@pytest.mark.parametrize("size", [1, 4], ids=["one", "four"])
def test_four_thousand_shares_take_about_a_millisecond(make_view: MakeView, size: int) -> None:
    """The pure part leaves half of the 3 ms to protobuf and gRPC."""
    view = make_view(8, 500)
    offered = _ids(view)

    def once() -> float:
        begun = time.perf_counter()
        preferred(view, offered, [], size)
        return time.perf_counter() - begun

    assert min(statistics.median(once() for _ in range(20)) for _ in range(3)) < 1.5e-3


def _linked(view: ResourceView, near: Sequence[tuple[int, int]]) -> ResourceView:
    """Give a view links: the named pairs are near, all others far."""
    names = [f"GPU-{index}" for index in range(len(view.devices))]
    pairs = {(f"GPU-{a}", f"GPU-{b}") for a, b in near}
    weights = {
        (DeviceId(one), DeviceId(other)): 15 if (one, other) in pairs else 72
        for one, other in itertools.combinations(sorted(names), 2)
    }
    return replace(view, links=Links(weights=weights))


def test_links_outrank_numa_nodes(make_view: MakeView) -> None:
    """Two GPUs with a link between them go together, though each is on another socket."""
    view = _linked(make_view(4, nodes=[0, 0, 1, 1]), [(1, 2)])
    assert preferred(view, _ids(view), [], 2) == ["GPU-1", "GPU-2"]


def test_the_rest_is_near_to_what_must_be_included(make_view: MakeView) -> None:
    """Links to the unit that must be included count."""
    view = _linked(make_view(4), [(0, 1), (2, 3)])
    assert preferred(view, _ids(view), ["GPU-3"], 2) == ["GPU-3", "GPU-2"]


def test_healthy_and_far_before_unhealthy_and_near(make_view: MakeView) -> None:
    """A unit that turned Unhealthy is taken only when the healthy ones do not suffice."""
    view = _linked(make_view(3, unhealthy=["GPU-1"]), [(0, 1)])
    assert preferred(view, _ids(view), [], 2) == ["GPU-0", "GPU-2"]
