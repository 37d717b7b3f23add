"""The config changes under open streams: new lists, and nothing between the old and the new."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import ChangeKind, SimulatedKubelet

GPU = "nvidia.com/gpu"
STEPS = (4, 6, 3, 1, 2)  # shares per GPU, from 2
AT_MOST = 1.0  # seconds; a quarter on an idle machine, the tests' may be busy

Serves = Callable[..., bool]
Sharing = Callable[..., str]


@pytest.mark.parametrize("way", ["swap", "write"])
def test_capacity_follows_and_never_dips(
    way: str,
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
    record_property: Callable[[str, object], None],
) -> None:
    """Each list from edit to edit has as many units as the smaller of both, on one stream.

    Ids that are not wanted any more are Unhealthy at first: none vanishes with the edit.
    """
    change = getattr(config, way)
    change(sharing(replicas=2))
    start(withdrawn_hold=60)
    assert serves(each_kubelet, 16)
    took = [edited(each_kubelet, lambda n=n: change(sharing(replicas=n)), 8 * n) for n in STEPS]
    record_property("milliseconds", [round(each * 1000) for each in took])
    assert max(took) <= AT_MOST
    assert not [each for each in each_kubelet.changes if each.kind is ChangeKind.STREAM_ENDED]


def edited(kubelet: SimulatedKubelet, edit: Callable[[], None], count: int) -> float:
    """Edit, wait for the list, judge what came in between; returns the seconds it took."""
    before = kubelet.history[-1]
    seen = len(kubelet.history)
    begun = time.monotonic()
    edit()
    assert kubelet.wait(lambda: kubelet.allocatable().get(GPU) == count), kubelet.allocatable()
    news = kubelet.history[seen:]
    least = min(len(before.healthy), count)
    assert all(len(each.healthy) >= least for each in news)
    assert all(each.ids >= before.ids for each in news)
    return news[-1].at - begun


def test_a_config_that_says_the_same_is_silence(
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
) -> None:
    """An edit of a comment makes no list: each one is a write to the kubelet's disk."""
    config.swap(sharing(replicas=2))
    daemon = start()
    assert serves(kubelet, 16)
    lists = len(kubelet.history)
    config.swap("# nothing new\n" + sharing(replicas=2))
    assert kubelet.wait(lambda: daemon.said("config in force") == 2)
    config.swap(sharing(replicas=3))
    assert serves(kubelet, 24)
    assert len(kubelet.history) == lists + 1


def test_a_bad_edit_changes_nothing(
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
) -> None:
    """The last good config stays, the problem is told with its line, and the next edit works."""
    config.swap(sharing(replicas=2))
    daemon = start()
    assert serves(kubelet, 16)
    lists = len(kubelet.history)
    config.swap("version: v1\nsharing:\n  timeSlicing:\n    replicsa: 4\n")
    assert daemon.says("config refused", "nvidia.yaml:4")
    assert kubelet.wait(lambda: daemon.metric("config_last_reload_success") == 0)
    assert daemon.get("readyz")[0] == 200
    config.swap(sharing(replicas=3))
    assert serves(kubelet, 24)
    assert daemon.metric("config_last_reload_success") == 1
    assert len(kubelet.history) == lists + 1


def test_a_file_that_vanishes_changes_nothing(
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
) -> None:
    """Without its file the daemon keeps the config and says so; the next file is read."""
    config.write(sharing(replicas=2))
    daemon = start()
    assert serves(kubelet, 16)
    config.path.unlink()
    assert daemon.says("config file is missing")
    assert serves(kubelet, 16)
    config.write(sharing(replicas=3))
    assert serves(kubelet, 24)
    assert {len(each.healthy) for each in kubelet.history} == {16, 24}


@pytest.mark.parametrize("text", ["", "# only a comment\n"], ids=["empty", "comment"])
def test_an_emptied_file_means_the_defaults(
    text: str,
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
) -> None:
    """An empty file is a config that wishes nothing: whole GPUs again."""
    config.write(sharing(replicas=2))
    start()
    assert serves(kubelet, 16)
    config.write(text)
    assert serves(kubelet, 8)


def test_one_gpu_changes_and_the_others_do_not(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
) -> None:
    """Sharing one GPU under another name takes one unit from the old name, and no more."""
    start()
    assert serves(each_kubelet, 8)
    config.swap(sharing(replicas=4, devices=[7], rename="nvidia.com/gpu.shared"))
    assert serves(each_kubelet, 4, "nvidia.com/gpu.shared")
    assert serves(each_kubelet, 7)
    assert set(healthy_counts(each_kubelet, GPU)) == {8, 7}
    config.swap("")
    assert serves(each_kubelet, 8)
    assert serves(each_kubelet, 0, "nvidia.com/gpu.shared")
    assert not [each for each in each_kubelet.changes if each.kind is ChangeKind.STREAM_ENDED]
    assert ids_once(each_kubelet)


def healthy_counts(kubelet: SimulatedKubelet, resource: str) -> list[int]:
    """How many units each list of a resource had to give."""
    return [len(each.healthy) for each in kubelet.history if each.resource == resource]


def ids_once(kubelet: SimulatedKubelet) -> bool:
    """Whether no device was ever Healthy under two names at once."""
    healthy: dict[str, frozenset[str]] = {}
    for each in kubelet.history:
        healthy[each.resource] = frozenset(one.partition("::")[0] for one in each.healthy)
        if shared(healthy):
            return False
    return True


def shared(healthy: Mapping[str, frozenset[str]]) -> bool:
    """Whether two sets have something in common."""
    return sum(map(len, healthy.values())) > len(frozenset().union(*healthy.values()))
