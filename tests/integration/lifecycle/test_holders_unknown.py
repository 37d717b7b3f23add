"""PodResources does not answer: nobody knows what is free, so nothing is ever dropped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import Pod, SimulatedKubelet

GPU = "nvidia.com/gpu"
HOLD = 0.3
LONG = 3 * HOLD

Serves = Callable[..., bool]


@pytest.fixture
def blind(root: Path, start: Callable[..., Any]) -> Callable[[], Any]:
    """Start a daemon whose PodResources socket does not exist."""
    flags = ("--pod-resources", str(root / "none.sock"))
    return lambda: start(*flags, machine="l4x1", withdrawn_hold=HOLD)


def test_nothing_is_dropped(
    each_kubelet: SimulatedKubelet,
    blind: Callable[[], Any],
    serves: Serves,
    config: Any,
    sharing: Callable[..., str],
) -> None:
    """Surplus shares stay listed Unhealthy, over a restart too, and a metric says so."""
    config.swap(sharing(replicas=4))
    daemon = blind()
    assert serves(each_kubelet, 4)
    config.swap(sharing(replicas=2))
    assert serves(each_kubelet, 2)
    assert daemon.says("PodResources does not answer")
    assert daemon.metric("holders_known") == 0
    assert daemon.metric(f'devices{{resource="{GPU}",state="holders-unknown"}}') == 2
    assert not each_kubelet.wait(lambda: each_kubelet.capacity()[GPU] != 4, LONG)
    daemon.kill()
    lists = len(each_kubelet.history)
    blind()
    assert each_kubelet.wait(lambda: len(each_kubelet.history) > lists)
    assert serves(each_kubelet, 2)
    assert not each_kubelet.wait(lambda: each_kubelet.capacity()[GPU] != 4, LONG)
    assert all(len(each.ids) == 4 for each in each_kubelet.history)


def test_pods_get_units_all_the_same(
    kubelet: SimulatedKubelet,
    blind: Callable[[], Any],
    serves: Serves,
    config: Any,
    sharing: Callable[..., str],
) -> None:
    """Allocate works without holders, and what was allocated survives a shrink Healthy."""
    config.swap(sharing(replicas=4))
    blind()
    assert serves(kubelet, 4)
    held = [kubelet.admit(Pod.asking(name, **{GPU: 1})).devices["main"][GPU][0] for name in "abc"]
    kubelet.remove("a")
    kubelet.remove("b")
    config.swap(sharing(replicas=2))
    assert serves(kubelet, 2)
    assert all(each.ids >= set(held) for each in kubelet.history)


def test_it_answers_again(
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Callable[..., str],
    root: Path,
) -> None:
    """Once PodResources is there the surplus leaves the list."""
    config.swap(sharing(replicas=4))
    socket = root / "late.sock"
    daemon = start("--pod-resources", str(socket), machine="l4x1", withdrawn_hold=HOLD)
    assert serves(kubelet, 4)
    config.swap(sharing(replicas=2))
    assert serves(kubelet, 2)
    assert daemon.says("PodResources does not answer")
    socket.symlink_to(kubelet.pod_resources)
    assert kubelet.wait(lambda: kubelet.capacity()[GPU] == 2)
    assert daemon.said("PodResources answers again")
    assert daemon.metric("holders_known") == 1
