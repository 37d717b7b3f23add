"""Two processes of ours, streams that are cut, and a stranger who takes the name."""

import signal
from collections.abc import Callable

import pytest

from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Kubelet
from tests.kubelet.plugin import ScriptedPlugin, gpus
from tests.kubelet.until import until

ROUNDS = 10
ONE = Container(limits={GPU: 1})


@pytest.mark.smoke
@pytest.mark.parametrize("flags", [(), ("--take-over",)], ids=["waits", "takes over"])
def test_a_second_process_follows(kubelet: Kubelet, ours: Ours, flags: tuple[str, ...]) -> None:
    """It registers nothing while the first serves; then it serves the same, and pods go on."""
    first = ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.admit("a", ONE).admitted
    held = kubelet.held()
    second = ours.start(*flags)
    if not flags:
        assert second.says("lock", "held=False")
        assert second.says("devices found")
        assert not second.said("registered")
        first.end()
    assert first.wait() == 0
    assert second.says("registered")
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.held() == held
    assert kubelet.admit("b", Container(limits={GPU: 7})).admitted
    assert second.running


@pytest.mark.timeout(120)
def test_streams_that_are_cut(kubelet: Kubelet, ours: Ours) -> None:
    """After each cut a pod is admitted and the next death is noticed: the list is not a dead one's.

    The process is killed and the next one starts at once, so that the kubelet's late look at the
    old stream may meet the new registration.
    """
    ours.start()
    for number in range(ROUNDS):
        kubelet.wait(allocatable=8, capacity=8)
        assert kubelet.admit(f"all-{number}", Container(limits={GPU: 8})).admitted
        kubelet.remove(f"all-{number}")
        ours.processes[-1].end(signal.SIGKILL)
        ours.start()
        kubelet.wait(allocatable=0, capacity=8, seconds=1)


def test_a_stranger_comes_and_goes(
    kubelet: Kubelet, ours: Ours, plugin: Callable[..., ScriptedPlugin]
) -> None:
    """Its list is found out and replaced, and when it has left all is as before."""
    daemon = ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    before = kubelet.devices()
    assert kubelet.admit("a", ONE).admitted
    held = kubelet.held()
    stranger = plugin()
    stranger.devices = gpus(2)
    stranger.up("stranger.sock")
    assert daemon.says("registering anew") or daemon.says("stream ended")
    assert until(lambda: kubelet.devices() == before)
    stranger.close()
    assert until(lambda: kubelet.devices() == before)
    assert kubelet.held() == held
    assert kubelet.admit("b", Container(limits={GPU: 7})).admitted
    ours.processes[-1].end(signal.SIGKILL)
    kubelet.wait(allocatable=0, capacity=8)
