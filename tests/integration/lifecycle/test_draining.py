"""Configs change, and the daemon dies, while pods hold shares: no held id ever vanishes."""

from collections.abc import Callable
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import Pod, SimulatedKubelet

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"

Serves = Callable[..., bool]
Sharing = Callable[..., str]
Hold = Callable[[str], str]


@pytest.fixture
def hold(each_kubelet: SimulatedKubelet) -> Hold:
    """Run a pod that holds one unit; returns its id."""

    def admit(name: str) -> str:
        admission = each_kubelet.admit(Pod.asking(name, **{GPU: 1}))
        assert admission.admitted, admission.message
        (unit,) = admission.devices["main"][GPU]
        return unit

    return admit


def listed(kubelet: SimulatedKubelet, resource: str = GPU) -> dict[str, str]:
    """Slot to health of one GPU's units: the share's number, or "whole"."""
    devices = kubelet.devices(resource)
    return {id_.partition("::")[2] or "whole": health for id_, health in devices.items()}


def slots(healthy: str = "", unhealthy: str = "") -> dict[str, str]:
    """Write down what ``listed`` should say."""
    return dict.fromkeys(healthy.split(), "Healthy") | dict.fromkeys(unhealthy.split(), "Unhealthy")


def lists_with(kubelet: SimulatedKubelet, held: str, *, since: int) -> bool:
    """Whether every list since then has that id."""
    lists = [each for each in kubelet.history[since:] if each.resource == GPU]
    return bool(lists) and all(held in each.ids for each in lists)


def becomes(kubelet: SimulatedKubelet, wanted: dict[str, str], resource: str = GPU) -> None:
    """Wait until exactly that is listed."""
    assert kubelet.wait(lambda: listed(kubelet, resource) == wanted), listed(kubelet, resource)


def test_fewer_shares_while_held(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
    hold: Hold,
) -> None:
    """Held shares survive first; the surplus is Unhealthy at once and leaves when it is free."""
    config.swap(sharing(replicas=4))
    daemon = start(machine="l4x1")
    assert serves(each_kubelet, 4)
    held = {name: hold(name) for name in "abc"}
    since = len(each_kubelet.history)
    config.swap(sharing(replicas=2))
    becomes(each_kubelet, slots("0 1", "2"))
    first = each_kubelet.history[since]
    assert (len(first.healthy), len(first.ids)) == (2, 4)
    assert daemon.metric(f'devices{{resource="{GPU}",state="draining"}}') == 1
    assert all(lists_with(each_kubelet, each, since=since) for each in held.values())
    each_kubelet.remove("c")
    becomes(each_kubelet, slots("0 1"))
    assert all(lists_with(each_kubelet, held[name], since=since) for name in "ab")


def test_a_new_name_while_held(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
    hold: Hold,
) -> None:
    """The old name drains, and the new one appears as soon as the pod has ended."""
    config.swap(sharing(replicas=2))
    daemon = start(machine="l4x1")
    assert serves(each_kubelet, 2)
    held = hold("a")
    since = len(each_kubelet.history)
    config.swap(sharing(replicas=2, rename=SHARED))
    becomes(each_kubelet, slots(unhealthy="0"))
    assert SHARED not in each_kubelet.allocatable()
    assert each_kubelet.wait(lambda: daemon.metric("config_unmet_entries") == 1)
    assert daemon.says("config entry is unmet on this node", "pods hold the device")
    assert lists_with(each_kubelet, held, since=since)
    each_kubelet.remove("a")
    assert serves(each_kubelet, 2, SHARED)
    becomes(each_kubelet, {})
    assert daemon.metric("config_unmet_entries") == 0


def test_from_whole_to_shares_while_held(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
    hold: Hold,
) -> None:
    """A held whole GPU counts as its first share until it is given back."""
    start(machine="l4x1")
    assert serves(each_kubelet, 1)
    held = hold("a")
    since = len(each_kubelet.history)
    config.swap(sharing(replicas=3))
    becomes(each_kubelet, slots("whole 1 2"))
    assert lists_with(each_kubelet, held, since=since)
    each_kubelet.remove("a")
    assert each_kubelet.wait(lambda: listed(each_kubelet).get("0") == "Healthy")
    assert listed(each_kubelet) == slots("0 1 2", "whole")
    becomes(each_kubelet, slots("0 1 2"))
    assert all(len(each.healthy) == 3 for each in each_kubelet.history[since:])


def test_from_shares_to_whole_while_held(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
    hold: Hold,
) -> None:
    """The lowest held share is the GPU's one unit until no share is held."""
    config.swap(sharing(replicas=3))
    start(machine="l4x1")
    assert serves(each_kubelet, 3)
    held = [hold(name) for name in "abc"]
    each_kubelet.remove("a")
    since = len(each_kubelet.history)
    config.swap(sharing(replicas=1))
    becomes(each_kubelet, slots("1", "2"))
    each_kubelet.remove("b")
    becomes(each_kubelet, slots("2"))
    assert lists_with(each_kubelet, held[2], since=since)
    each_kubelet.remove("c")
    becomes(each_kubelet, slots("whole"))
    assert all(len(each.healthy) == 1 for each in each_kubelet.history[since:])


def test_killed_and_started_with_fewer_shares(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
    hold: Hold,
) -> None:
    """What pods held before the crash is listed after it, even beyond the new config."""
    config.swap(sharing(replicas=4))
    daemon = start(machine="l4x1")
    assert serves(each_kubelet, 4)
    held = {name: hold(name) for name in "abcd"}
    each_kubelet.remove("a")
    daemon.kill()
    config.swap(sharing(replicas=2))
    since = len(each_kubelet.history)
    start(machine="l4x1")
    becomes(each_kubelet, slots("1 2", "3"))
    assert all(lists_with(each_kubelet, held[name], since=since) for name in "bcd")
    each_kubelet.remove("b")
    becomes(each_kubelet, slots("2 3"))


def test_a_restarted_kubelet_finds_what_its_pods_hold(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
    hold: Hold,
) -> None:
    """The kubelet and the daemon restart together in mid-drain; every pod is admitted again."""
    config.swap(sharing(replicas=4))
    daemon = start(machine="l4x1")
    assert serves(each_kubelet, 4)
    held = {name: hold(name) for name in "abc"}
    config.swap(sharing(replicas=2))
    assert serves(each_kubelet, 2)
    daemon.kill()
    since = len(each_kubelet.history)
    each_kubelet.restart(readmit=False)
    start(machine="l4x1")
    assert serves(each_kubelet, 2)
    assert all(each.admitted for each in each_kubelet.readmit())
    becomes(each_kubelet, slots("0 1", "2"))
    assert all(lists_with(each_kubelet, each, since=since) for each in held.values())
