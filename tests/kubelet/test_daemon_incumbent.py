"""Our daemon takes over a node from NVIDIA's plugin, whose pods go on."""

import time
from collections.abc import Callable

import pytest

from tests.kubelet import incumbent, topology
from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Counts, Kubelet
from tests.kubelet.plugin import ScriptedPlugin
from tests.kubelet.podresources import listed
from tests.kubelet.until import until

ONE = Container(limits={GPU: 1})

Boot = Callable[..., Kubelet]
Plugins = Callable[..., ScriptedPlugin]


@pytest.mark.smoke
@pytest.mark.parametrize("replicas", [1, 4])
def test_its_pods_go_on(boot: Boot, ours: Ours, plugin: Plugins, replicas: int) -> None:
    """Ids are the same, so held ones stay held, the others are given out, and none is lost.

    Also when the kubelet, with a policy that aligns, then admits all pods again.
    """
    kubelet = boot(**topology.settings("best-effort"))
    count = 8 * replicas
    before = incumbent.serve(plugin, replicas)
    kubelet.wait(allocatable=count, capacity=count)
    ids = kubelet.devices()
    assert kubelet.admit("a", ONE).admitted
    assert kubelet.admit("b", Container(limits={GPU: 3})).admitted
    held = kubelet.held()
    if replicas > 1:
        ours.share(replicas)
    before.stop(incumbent.SOCKET)
    kubelet.wait(allocatable=0, capacity=count)
    ours.start()
    kubelet.wait(allocatable=count, capacity=count)
    assert kubelet.devices() == ids
    assert kubelet.held() == listed(kubelet) == held
    kubelet.restart(readmit=False)
    kubelet.wait(allocatable=count, capacity=count)
    assert all(again.admitted for again in kubelet.readmit())
    assert kubelet.held() == held
    assert kubelet.admit("c", Container(limits={GPU: count - 4})).admitted
    assert not kubelet.admit("d", ONE).admitted


def test_its_pods_hold_other_shares_than_ours(
    kubelet: Kubelet, ours: Ours, plugin: Plugins
) -> None:
    """With fewer shares than it gave out, what its pods hold is listed until they end."""
    before = incumbent.serve(plugin, 4)
    kubelet.wait(allocatable=32, capacity=32)
    assert kubelet.admit("a", Container(limits={GPU: 32})).admitted
    held = kubelet.held()
    before.stop(incumbent.SOCKET)
    kubelet.wait(allocatable=0, capacity=32)
    ours.share(2)
    ours.start()
    kubelet.wait(allocatable=16, capacity=32)
    assert kubelet.held() == held
    kubelet.remove("a")
    kubelet.wait(allocatable=16, capacity=16)


@pytest.mark.figures
def test_how_long_units_are_away(
    kubelet: Kubelet, ours: Ours, plugin: Plugins, figure: Callable[[str, float], None]
) -> None:
    """From the stand-in's end, or our first process's, until the units are all back.

    The next process is started when the first has ended, or, with --take-over, ends it.
    """
    before = incumbent.serve(plugin, 1)
    kubelet.wait(allocatable=8, capacity=8)
    before.stop(incumbent.SOCKET)
    gone = kubelet.wait(allocatable=0, capacity=8).at
    ours.start()
    figure("incumbent ended to ours listed", (_back(kubelet) - gone) * 1000)
    for _ in range(3):
        ours.processes[-1].end()
        gone = kubelet.wait(allocatable=0, capacity=8).at
        ours.start()
        figure("ours ended to ours listed", (_back(kubelet) - gone) * 1000)
        began = ours.start("--take-over")
        gone = kubelet.wait(allocatable=0, capacity=8).at
        figure("taken over from ours: dip", (_back(kubelet) - gone) * 1000)
        assert until(lambda one=began: one.said("list sent"))
    for _ in range(3):
        came = _restarted(kubelet)
        figure("kubelet restarted to listed", (_back(kubelet) - came) * 1000)
    assert kubelet.counts() == Counts(allocatable=8, capacity=8)


def _back(kubelet: Kubelet) -> float:
    return kubelet.wait(allocatable=8, capacity=8).at


def _restarted(kubelet: Kubelet) -> float:
    began = time.monotonic()
    kubelet.restart()
    return began
