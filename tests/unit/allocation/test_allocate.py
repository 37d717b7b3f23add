"""What a container gets for its unit ids."""

import statistics
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deviceplugin.allocation.allocate import allocate
from deviceplugin.errors import AllocationRefusedError
from deviceplugin.model import AllocationRules, ResourceView

MakeView = Callable[..., ResourceView]
ONE = AllocationRules(fail_requests_greater_than_one=True)


def _answers(view: ResourceView, *requests: list[str]) -> list[str]:
    return [edits.env["DEVICES"] for edits in allocate(view, requests)]


@pytest.mark.parametrize(
    ("shares", "ids", "devices"),
    [
        pytest.param(1, ["GPU-2"], "GPU-2", id="one-whole-device"),
        pytest.param(1, ["GPU-3", "GPU-0", "GPU-2"], "GPU-0,GPU-2,GPU-3", id="sorted-by-index"),
        pytest.param(1, ["GPU-1", "GPU-1"], "GPU-1", id="duplicates-collapse"),
        pytest.param(4, ["GPU-1::3"], "GPU-1", id="a-share-is-its-device"),
        pytest.param(4, ["GPU-1::3", "GPU-1::0", "GPU-0::2"], "GPU-0,GPU-1", id="shares-collapse"),
        pytest.param(1, [], "", id="no-ids-no-devices"),
    ],
)
def test_ids_become_their_devices_once_and_in_order(
    make_view: MakeView, shares: int, ids: list[str], devices: str
) -> None:
    """The delivery sees each device behind the ids once, sorted by index."""
    assert _answers(make_view(4, shares), ids) == [devices]


def test_each_container_request_has_its_own_answer(make_view: MakeView) -> None:
    """There are as many answers as requests, in the same order."""
    assert _answers(make_view(4), ["GPU-3"], [], ["GPU-0"]) == ["GPU-3", "", "GPU-0"]


def test_no_requests_have_no_answers(make_view: MakeView) -> None:
    """A call without containers is answered without containers."""
    assert allocate(make_view(4), []) == []


def test_an_unhealthy_unit_is_answered(make_view: MakeView) -> None:
    """A unit that turned Unhealthy after the kubelet chose it does not fail the pod."""
    assert _answers(make_view(2, unhealthy=["GPU-1"]), ["GPU-1"]) == ["GPU-1"]


@pytest.mark.parametrize(
    ("ids", "devices"),
    [
        pytest.param(["GPU-0", "GPU-1"], "GPU-0", id="the-device-that-is-there"),
        pytest.param(["GPU-1"], "", id="none-is-there"),
    ],
)
def test_listed_ids_of_a_gone_device_are_answered(
    make_view: MakeView, ids: list[str], devices: str
) -> None:
    """A listed id succeeds though its device is gone; only devices that exist are handed out."""
    assert _answers(make_view(2, unhealthy=["GPU-1"], missing=["GPU-1"]), ids) == [devices]


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        pytest.param(["GPU-0", "GPU-9"], ["nvidia.com/gpu", "'GPU-9'", "4 units"], id="one"),
        pytest.param(["GPU-0::1"], ["'GPU-0::1'"], id="a-share-of-a-whole-device"),
        pytest.param([""], ["''"], id="an-empty-id"),
        pytest.param([f"x{n}" for n in range(10_000)], ["(and 9997 more)"], id="ten-thousand"),
    ],
)
def test_an_unknown_id_is_refused_in_plain_words(
    make_view: MakeView, ids: list[str], said: list[str]
) -> None:
    """The refusal names the resource and the id, says what to do, and stays short."""
    with pytest.raises(AllocationRefusedError) as refusal:
        allocate(make_view(4), [ids])
    text = str(refusal.value)
    assert all(part in text for part in [*said, "delete the pod"])
    assert len(text) < 400


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(["GPU-0::0", "GPU-0::1"], id="two-shares-of-one-device"),
        pytest.param(["GPU-0::0", "GPU-1::0"], id="two-shares-of-two-devices"),
    ],
)
def test_more_than_one_share_is_refused_where_the_config_says_so(
    make_view: MakeView, ids: list[str]
) -> None:
    """The rule counts ids, not devices, and the refusal names the key to change."""
    with pytest.raises(AllocationRefusedError, match="failRequestsGreaterThanOne") as refusal:
        allocate(make_view(2, 4, rules=ONE), [ids])
    assert "asks for 2 of nvidia.com/gpu" in str(refusal.value)


@pytest.mark.parametrize(
    "requests",
    [
        pytest.param([["GPU-0::0"]], id="one-share"),
        pytest.param([["GPU-0::0", "GPU-0::0"]], id="one-share-named-twice"),
        pytest.param([["GPU-0::0"], ["GPU-0::1"]], id="one-share-for-each-container"),
    ],
)
def test_the_rule_counts_different_ids_of_one_container(
    make_view: MakeView, requests: list[list[str]]
) -> None:
    """A container with one share passes, whatever other containers ask for."""
    assert len(allocate(make_view(2, 4, rules=ONE), requests)) == len(requests)


@settings(derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_listed_unit_is_answered_the_same_way_twice(
    make_view: MakeView, data: st.DataObject
) -> None:
    """Any choice of listed ids succeeds, again and again, in any order, with equal answers."""
    shares = data.draw(st.integers(1, 3))
    view = make_view(3, shares, unhealthy=["GPU-0", "GPU-1::1"], missing=["GPU-2"])
    listed = [unit.id for unit in view.units]
    ids = data.draw(st.lists(st.sampled_from(listed)))
    first = allocate(view, [ids])
    assert allocate(view, [ids]) == first
    assert allocate(view, [data.draw(st.permutations(ids))]) == first


def test_eight_devices_take_well_under_a_tenth_of_a_millisecond(make_view: MakeView) -> None:
    """The pure part leaves the whole latency to gRPC."""
    view = make_view(8)
    ids = [unit.id for unit in view.units]

    def once() -> float:
        begun = time.perf_counter()
        allocate(view, [ids])
        return time.perf_counter() - begun

    assert statistics.median(once() for _ in range(200)) < 1e-4
