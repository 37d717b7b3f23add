"""One stream, two streams, none: what the kubelet makes of the end of each."""

import itertools

import pytest

from tests.kubelet.node import GPU, Counts, Kubelet, asking
from tests.kubelet.plugin import Plugins, ScriptedPlugin, failing, gpus
from tests.kubelet.until import until

ONE = asking(1)
ROUNDS = 10


def newest_wins(kubelet: Kubelet) -> bool:
    """Whether the release keeps one connection per name, whichever came last."""
    return kubelet.release != "1.37"


@pytest.fixture
def served(kubelet: Kubelet, plugin: Plugins) -> ScriptedPlugin:
    """A plugin whose eight devices the kubelet has."""
    gpu = plugin()
    gpu.listed(kubelet, "first.sock")
    return gpu


@pytest.mark.smoke
@pytest.mark.parametrize("way", ["end_streams", "stop"])
def test_a_lost_stream_is_never_opened_again(
    kubelet: Kubelet, served: ScriptedPlugin, way: str
) -> None:
    """Capacity stays, nothing is allocatable, a held pod lives on, no new one is admitted."""
    assert kubelet.admit("held", ONE).admitted
    edits = kubelet.start_container("held")
    getattr(served, way)("first.sock")
    kubelet.wait(allocatable=0, capacity=8)
    admission = kubelet.admit("late", ONE)
    assert not admission.admitted
    assert "no healthy devices present" in admission.message
    assert kubelet.start_container("held") == edits
    assert len(served.called("ListAndWatch")) == 1


@pytest.mark.smoke
def test_a_second_registration_takes_over_in_order(
    kubelet: Kubelet, served: ScriptedPlugin
) -> None:
    """Old one ended, its end seen, new path registered: good on every release, each time."""
    assert kubelet.admit("held", ONE).admitted
    for number in range(ROUNDS):
        served.stop("first.sock" if number == 0 else f"n{number - 1}.sock")
        kubelet.wait(allocatable=0, capacity=8)
        served.up(f"n{number}.sock")
        kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.admit("next", asking(7)).admitted
    assert kubelet.held()["held"]["main"][GPU] == ("gpu-0",)


@pytest.mark.smoke
def test_overlapping_streams_up_to_1_36_end_in_nothing(
    kubelet: Kubelet, served: ScriptedPlugin
) -> None:
    """While both live the newest serves. Then the first one's end takes the newest away, or not."""
    served.up("second.sock")
    assert until(lambda: served.open_streams("second.sock") == 1)
    assert kubelet.admit("who", ONE).admitted
    assert [socket for name, socket, _ in served.calls if name == "Allocate"] == ["second.sock"]
    served.end_streams("first.sock")
    if newest_wins(kubelet):
        kubelet.wait(allocatable=0, capacity=8)
        assert until(lambda: served.open_streams("second.sock") == 0)
        assert not kubelet.admit("x", ONE).admitted
    else:
        assert until(lambda: served.open_streams("first.sock") == 0)
        assert kubelet.admit("x", ONE).admitted
        assert kubelet.counts() == Counts(allocatable=8, capacity=8)
    served.up("third.sock")
    kubelet.wait(allocatable=8, capacity=8)


@pytest.mark.only("1.37", "simulated-1.37")
def test_the_first_serves_again_when_the_second_leaves(
    kubelet: Kubelet, served: ScriptedPlugin, plugin: Plugins
) -> None:
    """An instance comes and goes beside the first, which then goes on alone."""
    other = plugin()
    other.up("second.sock")
    assert until(lambda: other.open_streams() == 1)
    other.stop("second.sock")
    # The kubelet notices at its own time, and until then asks the one that is gone.
    tries = itertools.count()
    assert until(lambda: kubelet.admit(f"pod-{next(tries)}", ONE).admitted)
    assert [socket for name, socket, _ in served.calls if name == "Allocate"] == ["first.sock"]
    served.stop("first.sock")
    kubelet.wait(allocatable=0, capacity=8)


def test_the_newest_list_is_the_list(
    kubelet: Kubelet, served: ScriptedPlugin, plugin: Plugins
) -> None:
    """Two instances with different ids replace each other's list with every message."""
    other = plugin()
    other.devices = gpus(6)
    other.up("second.sock")
    kubelet.wait(allocatable=6, capacity=6)
    served.push(gpus(8))
    kubelet.wait(allocatable=8, capacity=8)


@pytest.mark.only("1.37", "simulated-1.37")
def test_a_second_instance_whose_options_fail_changes_nothing(
    kubelet: Kubelet, served: ScriptedPlugin, plugin: Plugins
) -> None:
    """It is refused and the first serves on; once its options are good it takes over."""
    other = plugin()
    other.answers["GetDevicePluginOptions"] = failing("not yet")
    assert "not yet" in other.register(other.serve("second.sock"))
    assert kubelet.counts() == Counts(allocatable=8, capacity=8)
    assert kubelet.admit("one", ONE).admitted
    assert served.called("Allocate")
    other.answers.clear()
    other.up("third.sock")
    assert until(lambda: other.open_streams() == 1)
    assert kubelet.admit("two", ONE).admitted
    assert other.called("Allocate")


@pytest.mark.only("1.34", "1.36", "simulated-1.36")
def test_the_same_path_again_up_to_1_36(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """It is accepted; the end of either stream takes both away, and a new path heals."""
    assert served.register("first.sock") == ""
    assert until(lambda: served.open_streams() == 2)
    served._streams[0][1].put(None)
    kubelet.wait(allocatable=0, capacity=8)
    served.up("second.sock")
    kubelet.wait(allocatable=8, capacity=8)


@pytest.mark.only("1.37", "simulated-1.37")
def test_the_same_path_again_from_1_37_on_wedges(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """It is refused, and from then on no end is noticed until the kubelet restarts."""
    assert "already connected" in served.register("first.sock")
    assert kubelet.counts() == Counts(allocatable=8, capacity=8)
    served.stop("first.sock")
    assert not until(lambda: kubelet.counts().allocatable == 0, seconds=1)
    served.up("second.sock")
    served.stop("second.sock")
    assert not until(lambda: kubelet.counts().allocatable == 0, seconds=1)
    kubelet.restart(readmit=False)
    served.up("third.sock")
    kubelet.wait(allocatable=8, capacity=8)
    served.stop("third.sock")
    kubelet.wait(allocatable=0, capacity=8)


def test_a_rival_takes_the_name_and_leaves(
    kubelet: Kubelet, served: ScriptedPlugin, plugin: Plugins
) -> None:
    """Its ids replace ours. When it goes: nothing up to 1.36; from 1.37 on ours come back."""
    rival = plugin()
    rival.devices = gpus(3)
    rival.up("rival.sock")
    kubelet.wait(allocatable=3, capacity=3)
    rival.stop("rival.sock")
    if newest_wins(kubelet):
        kubelet.wait(allocatable=0, capacity=3)
    else:
        served.push(gpus(8))
        kubelet.wait(allocatable=8, capacity=8)
