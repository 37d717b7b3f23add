"""The simulated kubelet's PodResources service."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from deviceplugin.api.podresources.v1 import api_pb2, api_pb2_grpc
from deviceplugin.simulation.kubelet import Container, Pod, SimulatedKubelet

GPU = "nvidia.com/gpu"


@pytest.fixture
def stub(kubelet: SimulatedKubelet) -> Iterator[Any]:
    """A client of the service."""
    with grpc.insecure_channel(f"unix:{kubelet.pod_resources}") as channel:
        yield api_pb2_grpc.PodResourcesListerStub(channel)


def _list(stub: Any) -> dict[str, list[tuple[str, str, list[list[int]]]]]:
    """What each pod holds: container, id, nodes."""
    held: dict[str, list[tuple[str, str, list[list[int]]]]] = {}
    for pod in stub.List(api_pb2.ListPodResourcesRequest()).pod_resources:
        lines = held.setdefault(f"{pod.namespace}/{pod.name}", [])
        for container in pod.containers:
            for entry in container.devices:
                nodes = [node.ID for node in entry.topology.nodes]
                lines += [(container.name, id_, nodes) for id_ in entry.device_ids]
    return held


def _up(kubelet: SimulatedKubelet, plugin: Any, *devices: Any) -> None:
    plugin.devices = list(devices)
    plugin.up("a.sock")
    assert kubelet.wait(lambda: GPU in kubelet.allocatable())


def test_entries(
    kubelet: SimulatedKubelet, plugin: Any, stub: Any, line: Callable[..., Any]
) -> None:
    """One entry per device and NUMA node; plain init containers are left out, sidecars not."""
    _up(kubelet, plugin, line("a", "Healthy", 0, 1))
    sidecar = Container(name="sidecar", limits={GPU: 1}, init=True, restartable=True)
    init = Container(name="init", limits={GPU: 1}, init=True)
    kubelet.admit(Pod(name="p", containers=(init, sidecar, Container(name="app"))))
    assert _list(stub) == {"default/p": [("sidecar", "a", [0]), ("sidecar", "a", [1])]}


def test_no_topology_no_field(
    kubelet: SimulatedKubelet, plugin: Any, stub: Any, line: Callable[..., Any]
) -> None:
    """A device without topology is listed without the field."""
    _up(kubelet, plugin, line("a"))
    kubelet.admit(Pod.asking("p", **{GPU: 1}))
    answer = stub.List(api_pb2.ListPodResourcesRequest())
    (entry,) = answer.pod_resources[0].containers[0].devices
    assert (entry.resource_name, list(entry.device_ids)) == (GPU, ["a"])
    assert not entry.HasField("topology")


def test_only_active_pods(
    kubelet: SimulatedKubelet, plugin: Any, stub: Any, line: Callable[..., Any]
) -> None:
    """Rejected and removed pods are not listed; pods without devices are."""
    _up(kubelet, plugin, line("a"))
    kubelet.admit(Pod.asking("gone", **{GPU: 1}))
    kubelet.admit(Pod.asking("rejected", **{GPU: 5}))
    kubelet.admit(Pod.asking("plain"))
    kubelet.remove("gone")
    assert _list(stub) == {"default/plain": []}


def test_list_takes_devices_back(
    kubelet: SimulatedKubelet, plugin: Any, stub: Any, line: Callable[..., Any]
) -> None:
    """List is one of the moments at which a removed pod's devices come free."""
    _up(kubelet, plugin, line("a"))
    kubelet.admit(Pod.asking("gone", **{GPU: 1}))
    kubelet.remove("gone")
    manager = kubelet._process.manager if kubelet._process else None
    assert manager is not None
    assert manager.allocated == {GPU: {"a"}}
    _list(stub)
    assert manager.allocated == {}


def test_allocatable_is_all_that_is_healthy(
    kubelet: SimulatedKubelet, plugin: Any, stub: Any, line: Callable[..., Any]
) -> None:
    """GetAllocatableResources gives the healthy ids, held or not."""
    _up(kubelet, plugin, line("a", "Healthy", 0), line("b", "Unhealthy"), line("c"))
    kubelet.admit(Pod.asking("p", **{GPU: 2}))
    answer = stub.GetAllocatableResources(api_pb2.AllocatableResourcesRequest())
    assert [(each.resource_name, *each.device_ids) for each in answer.devices] == [
        (GPU, "a"),
        (GPU, "c"),
    ]


def test_get(kubelet: SimulatedKubelet, plugin: Any, stub: Any, line: Callable[..., Any]) -> None:
    """Get finds a pod by name and namespace, and nothing else."""
    _up(kubelet, plugin, line("a"))
    kubelet.admit(Pod.asking("p", **{GPU: 1}))
    request = api_pb2.GetPodResourcesRequest(pod_name="p", pod_namespace="default")
    assert stub.Get(request).pod_resources.containers[0].devices[0].device_ids == ["a"]
    other = api_pb2.GetPodResourcesRequest(pod_name="p", pod_namespace="elsewhere")
    with pytest.raises(grpc.RpcError, match="not found"):
        stub.Get(other)


def test_after_a_restart(
    kubelet: SimulatedKubelet, plugin: Any, stub: Any, line: Callable[..., Any]
) -> None:
    """Holders and their nodes are the same after a restart, with the plugin still away."""
    _up(kubelet, plugin, line("a", "Healthy", 1))
    kubelet.admit(Pod.asking("p", **{GPU: 1}))
    before = _list(stub)
    kubelet.restart()
    with grpc.insecure_channel(f"unix:{kubelet.pod_resources}") as channel:
        assert _list(api_pb2_grpc.PodResourcesListerStub(channel)) == before
        fresh = api_pb2_grpc.PodResourcesListerStub(channel)
        assert not fresh.GetAllocatableResources(api_pb2.AllocatableResourcesRequest()).devices


def _served(stub: Any, calls: int) -> int:
    served = 0
    for _ in range(calls):
        try:
            stub.List(api_pb2.ListPodResourcesRequest())
            served += 1
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # noqa: PT017 - the rest is counted
    return served


def test_rate_limit(stub: Any) -> None:
    """A tight loop is throttled; its first calls pass."""
    assert 10 <= _served(stub, 60) < 60


def test_no_rate_limit(boot: Callable[..., SimulatedKubelet]) -> None:
    """A test may switch the limit off."""
    kubelet = boot(rate_limited=False)
    with grpc.insecure_channel(f"unix:{kubelet.pod_resources}") as channel:
        assert _served(api_pb2_grpc.PodResourcesListerStub(channel), 60) == 60
