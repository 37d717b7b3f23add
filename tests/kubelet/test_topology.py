"""Topology policies on two NUMA nodes: who is admitted, and what the plugin is asked."""

import pytest

from deviceplugin.api.v1beta1 import api_pb2
from tests.kubelet.node import GPU, Boot, Kubelet, asking
from tests.kubelet.plugin import Plugins, ScriptedPlugin, Wish, ids, placed

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
INSISTING = POLICIES[2:]

Places = list[tuple[int, ...]]
EVEN: Places = [(0,)] * 4 + [(1,)] * 4


def serve(kubelet: Kubelet, plugin: ScriptedPlugin, places: Places = EVEN) -> None:
    """List a device for each of the places."""
    plugin.devices = placed(*places)
    plugin.listed(kubelet, "a.sock")


@pytest.mark.smoke
@pytest.mark.parametrize("policy", POLICIES)
def test_what_fits_on_a_node(boot: Boot, plugin: Plugins, policy: str) -> None:
    """Two of four on a node: the plugin is offered that node's, or all without a policy."""
    kubelet, gpu = boot(policy=policy, numa=[0, 1]), plugin()
    serve(kubelet, gpu)
    assert kubelet.admit("a", asking(2)).devices == {"main": {GPU: ("gpu-0", "gpu-1")}}
    offered = ids(*range(8 if policy == "none" else 4))
    assert gpu.wishes() == [Wish(available=offered, size=2)]


@pytest.mark.parametrize("policy", POLICIES[1:])
def test_exactly_a_node_is_not_asked_for(boot: Boot, plugin: Plugins, policy: str) -> None:
    """Where the aligned ones are just as many as wanted the plugin has no say."""
    kubelet, gpu = boot(policy=policy, numa=[0, 1]), plugin()
    serve(kubelet, gpu)
    admission = kubelet.admit("a", asking(4))
    assert admission.devices["main"][GPU] == ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
    assert gpu.wishes() == []


@pytest.mark.smoke
@pytest.mark.parametrize("policy", POLICIES)
def test_what_never_fits_on_a_node(boot: Boot, plugin: Plugins, policy: str) -> None:
    """Five of eight span both nodes: only the single node refuses."""
    kubelet, gpu = boot(policy=policy, numa=[0, 1]), plugin()
    serve(kubelet, gpu)
    admission = kubelet.admit("a", asking(5))
    if policy == "single-numa-node":
        assert (admission.admitted, admission.reason) == (False, "TopologyAffinityError")
    else:
        assert admission.admitted
        assert gpu.wishes() == [Wish(available=ids(*range(8)), size=5)]


@pytest.mark.parametrize("policy", POLICIES)
def test_what_would_fit_on_an_empty_node(boot: Boot, plugin: Plugins, policy: str) -> None:
    """Three well on each node, four wanted: those that insist refuse, the others span."""
    kubelet, gpu = boot(policy=policy, numa=[0, 1]), plugin()
    serve(kubelet, gpu)
    gpu.push([_sick(each) if each.ID in {"gpu-3", "gpu-7"} else each for each in gpu.devices])
    kubelet.wait(allocatable=6, capacity=8)
    admission = kubelet.admit("c", asking(4))
    assert admission.admitted == (policy not in INSISTING), admission
    assert admission.reason == ("TopologyAffinityError" if policy in INSISTING else "")


def _sick(well: api_pb2.Device) -> api_pb2.Device:
    return api_pb2.Device(ID=well.ID, health="Unhealthy", topology=well.topology)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("places", "admitted"),
    [
        pytest.param([()] * 4, {1, 3}, id="no-node-told"),
        pytest.param([(-1,)] * 4, set(), id="minus-one"),
        pytest.param([(5,)] * 4, set(), id="a-node-that-is-not-there"),
        pytest.param([(0, 1)] * 4, {1, 3}, id="both-nodes"),
        pytest.param([(0,), (0,), (), ()], {1}, id="told-of-some-only"),
    ],
)
def test_odd_nodes(
    boot: Boot, plugin: Plugins, policy: str, places: Places, admitted: set[int]
) -> None:
    """No node at all aligns with any; unknown nodes and missing ones bar all that insist."""
    kubelet, gpu = boot(policy=policy, numa=[0, 1]), plugin()
    serve(kubelet, gpu, places)
    seen = set()
    for count in (1, 3):
        if kubelet.admit(f"p{count}", asking(count)).admitted:
            seen.add(count)
    assert seen == (admitted if policy in INSISTING else {1, 3})
