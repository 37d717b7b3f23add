"""Our daemon comes while NVIDIA's plugin still serves, which ends after that."""

import time
from collections.abc import Callable

import pytest

from tests.kubelet import incumbent
from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Counts, Kubelet
from tests.kubelet.plugin import ScriptedPlugin
from tests.kubelet.podresources import listed
from tests.kubelet.until import until

ROUNDS = 5
STAYS = 0.5
"""Seconds in which nothing may change; what the end of a stream changes it does in milliseconds."""

Plugins = Callable[..., ScriptedPlugin]


def _outlive(kubelet: Kubelet, before: ScriptedPlugin, ours: Ours, units: int) -> float:
    """Register beside it, and end it; for how many seconds units were away.

    Up to 1.36 the end of the first stream takes ours along, so we register anew.
    """
    daemon = ours.start()
    assert daemon.says("list sent")
    full = Counts(allocatable=units, capacity=units)
    began = time.monotonic()
    before.stop(incumbent.SOCKET)
    if kubelet.release == "1.37":
        assert not until(lambda: kubelet.counts() != full, seconds=STAYS)
        return 0.0
    assert daemon.says("stream ended")
    assert until(lambda: daemon.said("registered") == 2)
    return kubelet.wait(allocatable=units, capacity=units).at - began


@pytest.mark.smoke
@pytest.mark.parametrize("replicas", [1, 4])
def test_its_pods_go_on(kubelet: Kubelet, ours: Ours, plugin: Plugins, replicas: int) -> None:
    """Held ids stay held, the rest is given out once, and our own end is noticed."""
    units = 8 * replicas
    before = incumbent.serve(plugin, replicas)
    kubelet.wait(allocatable=units, capacity=units)
    assert kubelet.admit("a", Container(limits={GPU: 1})).admitted
    assert kubelet.admit("b", Container(limits={GPU: 2})).admitted
    held, edits = kubelet.held(), [kubelet.start_container(pod) for pod in "ab"]
    ours.share(replicas)

    _outlive(kubelet, before, ours, units)

    assert listed(kubelet) == kubelet.held() == held
    assert [kubelet.start_container(pod) for pod in "ab"] == edits
    assert kubelet.admit("c", Container(limits={GPU: units - 3})).admitted
    assert not kubelet.admit("d", Container(limits={GPU: 1})).admitted
    ours.processes[-1].end()
    kubelet.wait(allocatable=0, capacity=units)


@pytest.mark.figures
def test_how_long_units_are_away(
    kubelet: Kubelet, ours: Ours, plugin: Plugins, figure: Callable[[str, float], None]
) -> None:
    """From the incumbent's end until all units are back; none is ever away from 1.37 on."""
    for _ in range(ROUNDS):
        before = incumbent.serve(plugin, 1)
        kubelet.wait(allocatable=8, capacity=8)
        figure("incumbent ended beside ours: dip", 1000 * _outlive(kubelet, before, ours, 8))
        ours.processes[-1].end()
        kubelet.wait(allocatable=0, capacity=8)
