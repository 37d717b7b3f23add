"""What Register does, and what it refuses."""

from collections.abc import Callable

import pytest

from tests.kubelet.node import Container, Counts, Kubelet
from tests.kubelet.plugin import ScriptedPlugin

Plugins = Callable[..., ScriptedPlugin]


@pytest.mark.smoke
def test_a_pod_gets_one_device(kubelet: Kubelet, plugin: Plugins) -> None:
    """A plugin that registers is listed, and a pod that asks for one device holds one."""
    gpu = plugin()
    gpu.up("a.sock")
    kubelet.wait(allocatable=8, capacity=8)
    admission = kubelet.admit("one", Container(limits={gpu.resource: 1}))
    assert admission.admitted
    assert kubelet.held() == {"one": {"main": {gpu.resource: ("gpu-0",)}}}
    assert kubelet.start_container("one").env == {"VISIBLE": "gpu-0"}
    assert kubelet.counts() == Counts(allocatable=8, capacity=8)
