"""What the kubelet makes of lists: counts, words of health, ids that go."""

import time
from collections.abc import Callable

import pytest

from tests.kubelet.node import GPU, Boot, Counts, Kubelet, KubeletDiedError, asking
from tests.kubelet.plugin import Plugins, ScriptedPlugin, device, gpus, placed
from tests.kubelet.until import until

Figure = Callable[[str, float], None]
ONE = asking(1)
FLIPS = 40


@pytest.fixture
def served(kubelet: Kubelet, plugin: Plugins) -> ScriptedPlugin:
    """A plugin with four devices."""
    gpu = plugin()
    gpu.devices = gpus(4)
    gpu.listed(kubelet, "a.sock")
    return gpu


@pytest.mark.smoke
def test_allocatable_follows_health_and_capacity_stays(
    kubelet: Kubelet, served: ScriptedPlugin
) -> None:
    """Devices that fail and recover, one or several at a time."""
    for bad in ([0], [], [1, 3], [3], []):
        served.push(gpus(4, unhealthy=bad))
        kubelet.wait(allocatable=4 - len(bad), capacity=4)


def test_a_pod_keeps_a_device_that_turns_unhealthy(
    kubelet: Kubelet, served: ScriptedPlugin
) -> None:
    """The pod goes on; when it ends the device is still not given out."""
    assert kubelet.admit("held", ONE).devices == {"main": {GPU: ("gpu-0",)}}
    served.push(gpus(4, unhealthy=[0]))
    kubelet.wait(allocatable=3, capacity=4)
    assert kubelet.start_container("held").env == {"VISIBLE": "gpu-0"}
    kubelet.remove("held")
    assert kubelet.counts() == Counts(allocatable=3, capacity=4)
    assert kubelet.admit("next", asking(3)).admitted
    assert not kubelet.admit("more", ONE).admitted


@pytest.mark.parametrize("word", ["Unknown", "healthy", "HEALTHY", ""])
def test_every_other_word_is_unhealthy(kubelet: Kubelet, served: ScriptedPlugin, word: str) -> None:
    """Only `Healthy`, spelt so, is healthy."""
    served.push([device("gpu-0", word), device("gpu-1")])
    kubelet.wait(allocatable=1, capacity=2)


def test_an_id_listed_twice(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """Alike it counts once; with different health it counts twice."""
    served.push([device("gpu-0"), device("gpu-0"), device("gpu-1")])
    kubelet.wait(allocatable=2, capacity=2)
    served.push([device("gpu-0"), device("gpu-0", "Unhealthy"), device("gpu-1")])
    kubelet.wait(allocatable=2, capacity=3)


def test_an_empty_list(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """It is 0 of 0, on a stream that stays."""
    served.push([])
    kubelet.wait(allocatable=0, capacity=0)
    assert served.open_streams() == 1


def test_an_id_that_goes_stays_with_its_pod(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """The pod holds it, the rest can be had, and when it is back it is still held."""
    assert kubelet.admit("held", ONE).devices == {"main": {GPU: ("gpu-0",)}}
    served.push(gpus(4)[1:])
    kubelet.wait(allocatable=3, capacity=3)
    assert kubelet.start_container("held").env == {"VISIBLE": "gpu-0"}
    assert kubelet.admit("rest", asking(3)).admitted
    kubelet.remove("rest")
    served.push(gpus(4))
    kubelet.wait(allocatable=4, capacity=4)
    assert not kubelet.admit("too-many", asking(4)).admitted
    assert kubelet.admit("right", asking(3)).admitted


def test_an_id_that_goes_during_allocate_kills_the_kubelet(
    kubelet: Kubelet, served: ScriptedPlugin
) -> None:
    """Between the kubelet's choice and the answer a chosen id must stay listed."""

    def shrink(_request: object, _context: object) -> None:
        served.push(gpus(4)[2:])
        kubelet.wait(allocatable=2, capacity=2)

    served.answers["Allocate"] = shrink
    with pytest.raises(KubeletDiedError):
        kubelet.admit("victim", asking(2))
    assert not kubelet.alive()


def test_a_held_id_that_goes_kills_a_kubelet_with_numa_policy(boot: Boot, plugin: Plugins) -> None:
    """Admitting the pods again after a restart reads the NUMA node of each held id."""
    kubelet = boot(policy="best-effort", numa=[0, 1])
    gpu = plugin()
    gpu.devices = placed((0,), (0,), (1,), (1,))
    gpu.listed(kubelet, "a.sock")
    held = kubelet.admit("held", ONE).devices["main"][GPU]
    kubelet.restart(readmit=False)
    gpu.devices = [each for each in gpu.devices if each.ID not in held]
    gpu.up("b.sock")
    kubelet.wait(allocatable=3, capacity=3)
    with pytest.raises(KubeletDiedError):
        kubelet.readmit()
    assert not kubelet.alive()


def test_a_held_id_that_stays_unhealthy_harms_nobody(boot: Boot, plugin: Plugins) -> None:
    """The same restart with the id still listed: this is what our daemon does."""
    kubelet = boot(policy="best-effort", numa=[0, 1])
    gpu = plugin()
    gpu.devices = placed((0,), (0,), (1,), (1,))
    gpu.listed(kubelet, "a.sock")
    (held,) = kubelet.admit("held", ONE).devices["main"][GPU]
    kubelet.restart(readmit=False)
    for each in gpu.devices:
        each.health = "Unhealthy" if held == each.ID else "Healthy"
    gpu.up("b.sock")
    kubelet.wait(allocatable=3, capacity=4)
    assert [admission.admitted for admission in kubelet.readmit()] == [True]
    assert kubelet.alive()


@pytest.mark.figures
def test_how_soon_a_flip_is_seen(kubelet: Kubelet, served: ScriptedPlugin, figure: Figure) -> None:
    """From the plugin's message to the manager's count: within 50 ms at the 95th percentile."""
    taken = []
    for number in range(FLIPS):
        bad = [1] if number % 2 == 0 else []
        began = time.monotonic()
        served.push(gpus(4, unhealthy=bad))
        taken.append((kubelet.wait(allocatable=4 - len(bad)).at - began) * 1000)
        figure("scripted plugin's flip to allocatable", taken[-1])
    assert sorted(taken)[int(FLIPS * 0.95) - 1] <= 50


def test_lists_come_in_order(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """Of many lists in a row the last one stays."""
    for count in range(20):
        served.push(gpus(count))
    served.push(gpus(33))
    kubelet.wait(allocatable=33, capacity=33)
    last = Counts(allocatable=33, capacity=33)
    assert not until(lambda: kubelet.counts() != last, seconds=0.1)
