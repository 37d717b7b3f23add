"""Lists that do not fit one message of the kubelet."""

from collections.abc import Callable
from typing import Any

import pytest

from deviceplugin.config.rules import Devices, FirstDevices, ListedDevices, ShareRule
from deviceplugin.model import Device, DeviceId, ResourceName
from deviceplugin.sharing.size import LIMIT, list_size

GPU = ResourceName("nvidia.com/gpu")


@pytest.fixture
def large(bare_node: Callable[..., Any], device: Callable[..., Device]) -> Any:
    """A node with two GPUs whose ids are so long that about 18,000 units fill a message."""
    node = bare_node().config()
    return node.scan(*(device(n, id=DeviceId(f"GPU-{n}-" + "x" * 190)) for n in (0, 1))).answer()


def only(replicas: int, devices: Devices) -> ShareRule:
    """An entry for some devices."""
    return ShareRule(resource=GPU, replicas=replicas, devices=devices, where="nvidia.yaml:7")


def test_plan_that_does_not_fit_is_unmet_with_the_arithmetic(large: Any) -> None:
    """At the start a list that cannot be sent is one unit for each device, and the sum is shown."""
    large.share(10_000)
    assert len(large.healthy()) == 2
    (unmet,) = large.outcome.unmet
    assert unmet.where == "nvidia.yaml:7"
    assert "20,002 units, 2 of them being withdrawn" in unmet.reason
    assert f"{LIMIT:,}" in unmet.reason


def test_last_plan_that_fits_stays(large: Any) -> None:
    """An edit that does not fit changes nothing, until an edit that does."""
    large.share(3).share(10_000)
    assert len(large.healthy()) == 6
    large.tick(60.0)
    assert len(large.healthy()) == 6
    assert large.outcome.unmet
    large.share(4)
    assert len(large.healthy()) == 8
    assert large.outcome.unmet == ()


def test_withdrawn_units_count_until_they_leave(large: Any) -> None:
    """Units on their way out are in the message too, so a plan may have to wait for them."""
    large.config(only(10_000, FirstDevices(count=1)))
    large.config(only(10_000, FirstDevices(count=1)), only(2, ListedDevices(names=("1",))))
    assert len(large.healthy()) == 10_002
    large.config()
    large.config(only(10_000, ListedDevices(names=("1",))))
    assert "being withdrawn" in large.outcome.unmet[0].reason
    assert len(large.healthy()) == 2
    large.tick(31.0).answer(3).plan()
    assert len(large.healthy()) == 10_001
    assert large.outcome.unmet == ()


def test_a_large_name_does_not_stop_another(large: Any) -> None:
    """Only the resource that does not fit keeps its last plan."""
    big = only(20_000, ListedDevices(names=("1",)))
    other = ShareRule(
        resource=GPU,
        replicas=3,
        rename=ResourceName("nvidia.com/slice"),
        devices=FirstDevices(count=1),
    )
    large.config(other, big).answer()
    assert len(large.healthy("nvidia.com/slice")) == 3
    assert len(large.healthy()) == 1


@pytest.mark.parametrize("replicas", [100, 9_000])
def test_what_is_listed_fits(large: Any, replicas: int) -> None:
    """Whatever is served is below the kubelet's limit, sick or well."""
    large.share(replicas)
    large.unmet = "all units are Unhealthy, which is the longer word"
    large.plan()
    assert large.healthy() == []
    assert len(large.listed()) == 2 * replicas + 2
    assert list_size(large.views[GPU]) <= LIMIT
