"""NUMA policies as far as plugins feel them."""

from collections.abc import Callable
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import Pod, SimulatedKubelet

GPU = "nvidia.com/gpu"

Boot = Callable[..., SimulatedKubelet]


def _gpus(name: str, count: int) -> Pod:
    return Pod.asking(name, **{GPU: count})


@pytest.fixture
def two_nodes(plugin: Any, line: Callable[..., Any]) -> Any:
    """A plugin with four devices on each of two nodes."""
    plugin.devices = [line(f"gpu-{n}", "Healthy", n // 4) for n in range(8)]
    return plugin


def _up(kubelet: SimulatedKubelet, plugin: Any) -> None:
    plugin.up("a.sock")
    assert kubelet.wait(lambda: GPU in kubelet.allocatable())


@pytest.mark.parametrize(
    ("size", "available"),
    [(2, range(4)), (4, None), (6, range(8))],
    ids=["fits-one-node", "exactly-one-node", "spans-nodes"],
)
def test_what_preferred_sees(
    boot: Boot, two_nodes: Any, size: int, available: range | None
) -> None:
    """The plugin sees the aligned devices only, and is not asked when there is no choice."""
    kubelet = boot(policy="best-effort")
    _up(kubelet, two_nodes)
    assert kubelet.admit(_gpus("a", size)).admitted
    asked = [each.container_requests[0] for each in two_nodes.named("preferred")]
    seen = [set(each.available_deviceIDs) for each in asked]
    assert seen == ([] if available is None else [{f"gpu-{n}" for n in available}])
    assert all(list(each.must_include_deviceIDs) == [] for each in asked)


def test_single_node_policy_refuses_to_span(boot: Boot, two_nodes: Any) -> None:
    """More than one node's devices fail the pod under single-numa-node."""
    kubelet = boot(policy="single-numa-node")
    _up(kubelet, two_nodes)
    admission = kubelet.admit(_gpus("a", 5))
    assert (admission.admitted, admission.reason) == (False, "TopologyAffinityError")
    assert kubelet.admit(_gpus("b", 4)).admitted


def test_no_topology_means_no_care(boot: Boot, plugin: Any) -> None:
    """A resource without any topology is admitted under every policy."""
    kubelet = boot(policy="single-numa-node")
    _up(kubelet, plugin)
    assert kubelet.admit(_gpus("a", 8)).admitted


def test_some_without_topology_never_count(
    boot: Boot, plugin: Any, line: Callable[..., Any]
) -> None:
    """Once one device has a node, those without are out of reach for a policy."""
    kubelet = boot(policy="single-numa-node")
    plugin.devices = [line("a", "Healthy", 0), line("b"), line("c"), line("d")]
    _up(kubelet, plugin)
    admitted = [kubelet.admit(_gpus(name, 1)).admitted for name in ("one", "two", "three")]
    assert admitted == [True, False, False]
