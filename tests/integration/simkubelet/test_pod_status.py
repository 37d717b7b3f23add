"""The health of devices in pods' status, and when it is written."""

from collections.abc import Callable
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import ChangeKind, KubeletStoppedError, Pod, SimulatedKubelet

GPU = "nvidia.com/gpu"


@pytest.fixture
def held(kubelet: SimulatedKubelet, plugin: Any) -> SimulatedKubelet:
    """A kubelet with a pod ``a`` that holds ``gpu-0``."""
    plugin.up("a.sock")
    assert kubelet.wait(lambda: GPU in kubelet.allocatable())
    assert kubelet.admit(Pod.asking("a", **{GPU: 1})).devices == {"main": {GPU: ("gpu-0",)}}
    return kubelet


def _written(kubelet: SimulatedKubelet) -> list[str]:
    return [each.pod for each in kubelet.changes if each.kind is ChangeKind.POD_STATUS]


def test_a_flip_is_told_by_pod_name(
    held: SimulatedKubelet, plugin: Any, line: Callable[..., Any]
) -> None:
    """One change for each flip, with the name of the holder; the status has the new word."""
    plugin.push(line("gpu-0", "Unhealthy"), line("gpu-1", "Unhealthy"))
    assert held.wait(lambda: _written(held) == ["a"])
    assert held.health("a") == {"main": {GPU: {"gpu-0": "Unhealthy"}}}


def test_the_status_is_the_last_lists(held: SimulatedKubelet, plugin: Any) -> None:
    """A plugin that stops leaves the status as it was, and nobody writes it."""
    plugin.stop("a.sock")
    assert held.wait(lambda: held.allocatable() == {GPU: 0})
    assert held.health("a") == {"main": {GPU: {"gpu-0": "Healthy"}}}
    assert _written(held) == []


def test_nobody_to_ask(held: SimulatedKubelet) -> None:
    """An unknown pod is a KeyError; a kubelet that is down says so."""
    with pytest.raises(KeyError, match="nobody"):
        held.health("nobody")
    held.stop()
    with pytest.raises(KubeletStoppedError):
        held.health("a")
