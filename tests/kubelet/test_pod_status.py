"""The health of devices in the status of the pods that hold them."""

import pytest

from tests.kubelet.node import GPU, Boot, Kubelet, asking
from tests.kubelet.plugin import Plugins, ScriptedPlugin, device, gpus

OTHER = "amd.com/gpu"


@pytest.fixture
def kubelet(kind: str, boot: Boot) -> Kubelet:
    """One with the gate on, which is off by default before 1.36."""
    gate = {"feature_gates": {"ResourceHealthStatus": True}}
    return boot() if kind.startswith("simulated-") else boot(**gate)


@pytest.fixture
def gpu(kubelet: Kubelet, plugin: Plugins) -> ScriptedPlugin:
    """A plugin whose first device a pod ``held`` has."""
    gpu = plugin()
    gpu.listed(kubelet, "a.sock")
    assert kubelet.admit("held", asking(1)).devices == {"main": {GPU: ("gpu-0",)}}
    return gpu


def _health(kubelet: Kubelet) -> str:
    return kubelet.health("held")["main"][GPU]["gpu-0"]


@pytest.mark.parametrize("started", [True, False], ids=["running", "pulling its image"])
def test_a_flip_shows_in_the_status(
    kubelet: Kubelet, gpu: ScriptedPlugin, *, started: bool
) -> None:
    """The status follows both ways and is written at once, whether the container runs or not."""
    if started:
        kubelet.start_container("held")
    assert _health(kubelet) == "Healthy"
    for bad, word in (([0], "Unhealthy"), ([], "Healthy")):
        gpu.push(gpus(8, unhealthy=bad))
        assert kubelet.refreshed(seconds=2) == {"held"}
        assert _health(kubelet) == word


def test_a_flip_of_a_free_device_writes_nothing(kubelet: Kubelet, gpu: ScriptedPlugin) -> None:
    """Only the status of who holds the device is written."""
    gpu.push(gpus(8, unhealthy=[5]))
    kubelet.wait(allocatable=7)
    assert kubelet.refreshed(seconds=0.2) == set()


def test_what_goes_keeps_its_last_health(kubelet: Kubelet, gpu: ScriptedPlugin) -> None:
    """Neither an id that vanishes nor a plugin that goes shows in the status; a return does."""
    gpu.push(gpus(8)[1:])
    kubelet.wait(allocatable=7, capacity=7)
    assert (kubelet.refreshed(seconds=0.2), _health(kubelet)) == (set(), "Healthy")
    gpu.push(gpus(8))
    assert kubelet.refreshed(seconds=2) == {"held"}
    gpu.stop("a.sock")
    kubelet.wait(allocatable=0, capacity=8)
    assert (kubelet.refreshed(seconds=0.2), _health(kubelet)) == (set(), "Healthy")


@pytest.mark.parametrize("word", ["Unknown", "healthy"])
def test_other_words(kubelet: Kubelet, gpu: ScriptedPlugin, word: str) -> None:
    """The status tells any word but the two as it tells an unhealthy device."""
    gpu.push([device("gpu-0", word)])
    kubelet.wait(allocatable=0, capacity=1)
    assert _health(kubelet) == "Unhealthy"


def test_two_resources_with_the_same_ids(
    kubelet: Kubelet, gpu: ScriptedPlugin, plugin: Plugins
) -> None:
    """Up to 1.36 holders are looked up by id alone, and the wrong pod's status is written."""
    other = plugin(OTHER)
    other.listed(kubelet, "b.sock")
    kubelet.refreshed()
    other.push(gpus(8, unhealthy=[0]))
    kubelet.wait(allocatable=7, resource=OTHER)
    wrong = set() if kubelet.release == "1.37" else {"held"}
    assert kubelet.refreshed(seconds=0.2) == wrong
    assert _health(kubelet) == "Healthy"
    assert gpu.open_streams() == 1
