"""PodResources v1: what the kubelet tells other programs of the node about devices."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grpc
import pytest

from deviceplugin.api.podresources.v1 import api_pb2, api_pb2_grpc
from tests.kubelet.node import GPU, Kubelet, asking
from tests.kubelet.plugin import Plugins, device, gpus, placed
from tests.kubelet.until import until

Line = tuple[str, str, tuple[int, ...]]
"""Container, id, NUMA nodes."""

CALLS = 60
BURST = 10
_LIST = api_pb2.ListPodResourcesRequest()


@pytest.fixture
def connected(kubelet: Kubelet) -> Iterator[Callable[[], Any]]:
    """Make clients, each on a connection of its own."""
    channels: list[grpc.Channel] = []

    def connect() -> Any:
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels.append(grpc.insecure_channel(f"unix:{kubelet.pod_resources}", options=options))
        return api_pb2_grpc.PodResourcesListerStub(channels[-1])

    yield connect
    for channel in channels:
        channel.close()


@pytest.fixture
def stub(connected: Callable[[], Any]) -> Any:
    """A client of the service."""
    return connected()


def lines(entries: Iterable[Any], container: str = "") -> list[Line]:
    """One line for each id of each entry."""
    return sorted(
        (container, id_, tuple(node.ID for node in entry.topology.nodes))
        for entry in entries
        for id_ in entry.device_ids
    )


def listed(stub: Any) -> dict[str, list[Line]]:
    """What ``List`` answers, by pod."""
    pods = stub.List(_LIST).pod_resources
    return {
        f"{pod.namespace}/{pod.name}": [
            line for each in pod.containers for line in lines(each.devices, each.name)
        ]
        for pod in pods
    }


def allocatable(stub: Any) -> list[str]:
    """The ids that ``GetAllocatableResources`` answers."""
    answer = stub.GetAllocatableResources(api_pb2.AllocatableResourcesRequest())
    return [id_ for _, id_, _ in lines(answer.devices)]


@pytest.mark.smoke
def test_who_holds_what(kubelet: Kubelet, plugin: Plugins, stub: Any) -> None:
    """Sidecars and app containers are listed with their ids, plain init containers are not."""
    plugin().listed(kubelet, "a.sock")
    init = asking(1, name="init", init=True)
    sidecar = asking(1, name="sidecar", init=True, restartable=True)
    assert kubelet.admit("p", init, sidecar, asking(2)).admitted
    held = kubelet.held()["p"]
    assert held["sidecar"] == held["init"]
    wanted = [(name, id_, ()) for name in ("sidecar", "main") for id_ in held[name][GPU]]
    assert sorted(listed(stub)["default/p"]) == sorted(wanted)


def test_a_pod_without_devices(kubelet: Kubelet, plugin: Plugins, stub: Any) -> None:
    """It is listed too, with its containers and nothing in them."""
    plugin().listed(kubelet, "a.sock")
    kubelet.admit("bare", asking(0))
    (pod,) = stub.List(_LIST).pod_resources
    assert [(each.name, len(each.devices)) for each in pod.containers] == [("main", 0)]


def test_a_device_of_two_nodes_comes_twice(kubelet: Kubelet, plugin: Plugins, stub: Any) -> None:
    """Once for each NUMA node: readers must not count entries."""
    gpu = plugin()
    gpu.devices = placed((0, 1), (1,))
    gpu.listed(kubelet, "a.sock")
    assert kubelet.admit("p", asking(2)).admitted
    both = [("main", "gpu-0", (0,)), ("main", "gpu-0", (1,)), ("main", "gpu-1", (1,))]
    assert listed(stub) == {"default/p": both}
    assert allocatable(stub) == ["gpu-0", "gpu-0", "gpu-1"]


def test_allocatable_is_what_is_healthy(kubelet: Kubelet, plugin: Plugins, stub: Any) -> None:
    """Held or free; neither unhealthy ones nor those of a plugin that left are in it."""
    gpu = plugin()
    gpu.devices = gpus(4, unhealthy=[3])
    gpu.listed(kubelet, "a.sock")
    assert kubelet.admit("p", asking(1)).admitted
    assert allocatable(stub) == ["gpu-0", "gpu-1", "gpu-2"]
    gpu.stop("a.sock")
    kubelet.wait(allocatable=0, capacity=4)
    assert allocatable(stub) == []


def test_a_holder_stays_listed(kubelet: Kubelet, plugin: Plugins, connected: Any) -> None:
    """Device unhealthy, id gone, plugin gone, kubelet restarted: it holds what it held."""
    gpu = plugin()
    gpu.listed(kubelet, "a.sock")
    assert kubelet.admit("p", asking(1)).admitted
    held = {"default/p": [("main", "gpu-0", ())]}
    gpu.push(gpus(8, unhealthy=[0]))
    kubelet.wait(allocatable=7)
    assert listed(connected()) == held
    gpu.push([device("gpu-7")])
    kubelet.wait(capacity=1)
    assert listed(connected()) == held
    gpu.stop("a.sock")
    kubelet.wait(allocatable=0)
    kubelet.restart()
    assert listed(connected()) == held


def test_what_a_pod_held_is_free_once_it_is_removed(
    kubelet: Kubelet, plugin: Plugins, stub: Any
) -> None:
    """A pod that was removed, or refused, is not listed, and its devices can be had."""
    plugin().listed(kubelet, "a.sock")
    assert kubelet.admit("gone", asking(8)).admitted
    assert not kubelet.admit("refused", asking(1)).admitted
    assert listed(stub).keys() == {"default/gone"}
    kubelet.remove("gone")
    assert listed(stub) == {}
    assert kubelet.admit("next", asking(8)).admitted


def test_get_tells_of_one_pod(kubelet: Kubelet, plugin: Plugins, stub: Any) -> None:
    """The same as ``List``, or an error where there is no such pod."""
    plugin().listed(kubelet, "a.sock")
    assert kubelet.admit("p", asking(1)).admitted
    ask = api_pb2.GetPodResourcesRequest(pod_name="p", pod_namespace="default")
    (container,) = stub.Get(ask).pod_resources.containers
    assert lines(container.devices, container.name) == [("main", "gpu-0", ())]
    ask.pod_name = "other"
    with pytest.raises(grpc.RpcError) as error:
        stub.Get(ask)
    assert error.value.code() is grpc.StatusCode.UNKNOWN


def test_too_many_calls_are_refused(connected: Callable[[], Any]) -> None:
    """Ten at once are answered, further ones at a hundred a second, over all clients."""
    one, other = connected(), connected()
    # All on their way before the first answer: a busy machine must not space them out.
    calls = [stub.List.future(_LIST) for stub in (one, other) for _ in range(CALLS // 2)]
    codes = [call.code() for call in calls]
    assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert codes.count(grpc.StatusCode.OK) >= BURST
    assert until(lambda: one.List.future(_LIST).code() is grpc.StatusCode.OK)


@pytest.mark.only("1.34", "1.36", "1.37")
def test_the_older_version_tells_the_same(kubelet: Kubelet, plugin: Plugins) -> None:
    """v1alpha1, which others still read, names the same ids; its fields are v1's first ones."""
    gpu = plugin()
    gpu.up("a.sock")
    kubelet.wait(allocatable=8)
    assert kubelet.admit("a", asking(1)).admitted
    with grpc.insecure_channel(f"unix:{kubelet.pod_resources}") as channel:
        older = channel.unary_unary(
            "/v1alpha1.PodResourcesLister/List",
            request_serializer=api_pb2.ListPodResourcesRequest.SerializeToString,
            response_deserializer=api_pb2.ListPodResourcesResponse.FromString,
        )
        (pod,) = older(_LIST).pod_resources
    assert lines(pod.containers[0].devices) == [("", "gpu-0", ())]
