"""Two generations of one resource, one after the other and side by side."""

import time

import pytest

from tests.kubelet.node import Counts, Kubelet, asking
from tests.kubelet.plugin import Plugins, ScriptedPlugin, failing
from tests.kubelet.until import until
from tests.kubelet.watch import Watch

FULL = Counts(allocatable=8, capacity=8)
PAUSE = 1.0


@pytest.fixture
def first(kubelet: Kubelet, plugin: Plugins) -> ScriptedPlugin:
    """A plugin whose eight devices the kubelet has."""
    gpu = plugin()
    gpu.listed(kubelet, "first.sock")
    return gpu


@pytest.fixture
def second(plugin: Plugins) -> ScriptedPlugin:
    """Another instance with the same devices, not registered yet."""
    return plugin()


@pytest.mark.smoke
@pytest.mark.parametrize("way", ["stop", "end_streams"], ids=["stopped", "stream cut"])
def test_a_pause_is_safe_everywhere(
    kubelet: Kubelet, first: ScriptedPlugin, second: ScriptedPlugin, way: str
) -> None:
    """A second after the end a new path registers; it serves, and its own end is noticed too."""
    getattr(first, way)("first.sock")
    # Up to 1.36 what comes sooner can be hurt by the kubelet's late clean-up; nothing shows when
    # that is over.
    time.sleep(PAUSE)
    second.listed(kubelet, "second.sock")
    assert kubelet.admit("pod", asking(1)).admitted
    assert (len(second.allocated()), second.open_streams()) == (1, 1)
    second.stop("second.sock")
    kubelet.wait(allocatable=0, capacity=8, seconds=2)


@pytest.mark.only("1.37", "simulated-1.37")
def test_overlap_is_seamless_from_1_37_on(
    kubelet: Kubelet, first: ScriptedPlugin, second: ScriptedPlugin
) -> None:
    """Pods are admitted with one, two and one instance again, and no count ever changes."""
    with Watch(kubelet) as watch:
        assert kubelet.admit("one", asking(1)).admitted
        second.up("second.sock")
        assert until(lambda: second.open_streams() == 1)
        assert kubelet.admit("two", asking(1)).admitted
        first.stop("first.sock")
        assert kubelet.admit("three", asking(1)).admitted
    assert watch.seen == [FULL]
    assert (len(first.allocated()), len(second.allocated())) == (1, 2)


@pytest.mark.only("1.34", "1.36", "simulated-1.36")
def test_the_newer_ends_first_up_to_1_36(
    kubelet: Kubelet, first: ScriptedPlugin, second: ScriptedPlugin
) -> None:
    """Nothing is left, although the first one's stream is still open, and lists what it likes."""
    second.up("second.sock")
    assert until(lambda: second.open_streams() == 1)
    second.stop("second.sock")
    kubelet.wait(allocatable=0, capacity=8)
    assert first.open_streams("first.sock") == 1
    assert not kubelet.admit("pod", asking(1)).admitted


@pytest.mark.only("1.34", "1.36", "simulated-1.36")
def test_options_that_fail_beside_another_up_to_1_36(
    kubelet: Kubelet, first: ScriptedPlugin, second: ScriptedPlugin
) -> None:
    """The first one serves on, but its later end goes unnoticed until a good Register."""
    second.answers["GetDevicePluginOptions"] = failing("not yet")
    assert "not yet" in second.register(second.serve("second.sock"))
    assert kubelet.admit("one", asking(1)).admitted
    first.stop("first.sock")
    assert not until(lambda: kubelet.counts() != FULL, seconds=0.5)
    assert not kubelet.admit("two", asking(1)).admitted
    second.answers.clear()
    second.up("third.sock")
    assert until(lambda: second.open_streams() == 1)
    assert kubelet.admit("three", asking(1)).admitted


def test_a_pod_that_ended_is_not_looked_at_again(kubelet: Kubelet, first: ScriptedPlugin) -> None:
    """It ended, its plugin left, the kubelet restarts: nobody fails it, and nothing is held."""
    assert kubelet.admit("ended", asking(1)).admitted
    kubelet.exit_container("ended")
    kubelet.remove("ended")
    first.stop("first.sock")
    kubelet.wait(allocatable=0, capacity=8)
    assert kubelet.restart() == []
    assert kubelet.held() == {}
