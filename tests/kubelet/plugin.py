"""A device plugin that does nothing a scenario did not ask for."""

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc
from tests.kubelet.node import GPU, Kubelet

Answer = Callable[[Any, grpc.ServicerContext], Any]
"""Takes the request; returns the reply, or None for the usual one; may abort."""

Plugins = Callable[..., "ScriptedPlugin"]
"""Makes scripted plugins, by resource name."""


def device(id_: str, health: str = "Healthy", *nodes: int) -> api_pb2.Device:
    """One line of a list."""
    topology = api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=node) for node in nodes])
    return api_pb2.Device(ID=id_, health=health, topology=topology if nodes else None)


def placed(*nodes: tuple[int, ...]) -> list[api_pb2.Device]:
    """Devices ``gpu-0`` and on, each with its NUMA nodes."""
    return [device(f"gpu-{n}", "Healthy", *each) for n, each in enumerate(nodes)]


def ids(*numbers: int) -> frozenset[str]:
    """The ids of devices by number."""
    return frozenset(f"gpu-{n}" for n in numbers)


def gpus(count: int, *, unhealthy: Iterable[int] = ()) -> list[api_pb2.Device]:
    """So many devices, ``gpu-0`` and on."""
    bad = set(unhealthy)
    return [device(f"gpu-{n}", "Unhealthy" if n in bad else "Healthy") for n in range(count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One request of GetPreferredAllocation."""

    available: frozenset[str]
    must: frozenset[str] = frozenset()
    size: int


class ScriptedPlugin:
    """One resource, served on any number of sockets.

    Attributes:
        devices: the list that new streams begin with.
        answers: by method name, what to answer instead of the usual.
        calls: (method, socket, request) in the order in which they came.

    """

    def __init__(self, folder: Path, resource: str = GPU) -> None:
        self.folder = folder
        self.resource = resource
        self.devices = gpus(8)
        self.options = api_pb2.DevicePluginOptions(get_preferred_allocation_available=True)
        self.answers: dict[str, Answer] = {}
        self.calls: list[tuple[str, str, Any]] = []
        self._streams: list[tuple[str, queue.Queue[list[api_pb2.Device] | None]]] = []
        self._servers: dict[str, tuple[grpc.Server, futures.ThreadPoolExecutor]] = {}
        self._lock = threading.Lock()

    # Sockets

    def serve(self, name: str) -> str:
        """Listen on a socket of that name."""
        pool = futures.ThreadPoolExecutor(16)
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        api_pb2_grpc.add_DevicePluginServicer_to_server(_Endpoint(self, name), server)
        server.add_insecure_port(f"unix:{self.folder / name}")
        server.start()
        self._servers[name] = (server, pool)
        return name

    def register(self, name: str, *, version: str = "v1beta1", seconds: float = 5.0) -> str:
        """Register; the error's code and text, or "" when accepted."""
        request = api_pb2.RegisterRequest(
            version=version, endpoint=name, resource_name=self.resource
        )
        # A channel of its own connects anew: the pool's would back off after a kubelet's death.
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"unix:{self.folder}/kubelet.sock", options=options) as channel:
            try:
                api_pb2_grpc.RegistrationStub(channel).Register(request, timeout=seconds)
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"
        return ""

    def up(self, name: str) -> str:
        """Serve and register; asserts that it was accepted."""
        error = self.register(self.serve(name))
        assert not error, error
        return name

    def listed(self, kubelet: Kubelet, name: str) -> str:
        """Serve and register, and wait until the kubelet has the list."""
        self.up(name)
        healthy = sum(each.health == "Healthy" for each in self.devices)
        kubelet.wait(allocatable=healthy, capacity=len(self.devices), resource=self.resource)
        return name

    def stop(self, name: str) -> None:
        """Close a socket, with its streams."""
        server, pool = self._servers.pop(name)
        server.stop(None).wait(5)
        self.end_streams(name)
        pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Close all sockets."""
        for name in list(self._servers):
            self.stop(name)

    # Lists

    def push(self, devices: Iterable[api_pb2.Device]) -> None:
        """Send a new list on every open stream."""
        self.devices = list(devices)
        with self._lock:
            for _, lists in self._streams:
                lists.put(self.devices)

    def end_streams(self, name: str = "") -> None:
        """End the streams of a socket (of all) from this side; the server stays."""
        with self._lock:
            for endpoint, lists in self._streams:
                if name in ("", endpoint):
                    lists.put(None)

    def open_streams(self, name: str = "") -> int:
        """How many streams are open on a socket (on all)."""
        with self._lock:
            return sum(name in ("", endpoint) for endpoint, _ in self._streams)

    def called(self, method: str) -> list[Any]:
        """The requests that came for a method."""
        return [request for name, _, request in self.calls if name == method]

    def wishes(self) -> list[Wish]:
        """What GetPreferredAllocation was asked."""
        requests = [each.container_requests[0] for each in self.called("GetPreferredAllocation")]
        return [
            Wish(
                available=frozenset(each.available_deviceIDs),
                must=frozenset(each.must_include_deviceIDs),
                size=each.allocation_size,
            )
            for each in requests
        ]

    def allocated(self) -> list[frozenset[str]]:
        """The ids that each Allocate named."""
        return [
            frozenset(each.container_requests[0].devices_ids) for each in self.called("Allocate")
        ]


class _Endpoint(api_pb2_grpc.DevicePluginServicer):
    def __init__(self, plugin: ScriptedPlugin, name: str) -> None:
        self.plugin = plugin
        self.name = name

    def _answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Any:
        self.plugin.calls.append((method, self.name, request))
        answer = self.plugin.answers.get(method)
        return answer(request, context) if answer else None

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802 - API
        answer = self._answer("GetDevicePluginOptions", request, context)
        return answer or self.plugin.options

    def ListAndWatch(self, request: Any, context: Any) -> Any:  # noqa: N802 - API
        self._answer("ListAndWatch", request, context)
        lists: queue.Queue[list[api_pb2.Device] | None] = queue.Queue()
        lists.put(self.plugin.devices)
        entry = (self.name, lists)
        with self.plugin._lock:
            self.plugin._streams.append(entry)
        context.add_callback(lambda: lists.put(None))
        try:
            while (devices := lists.get()) is not None:
                yield api_pb2.ListAndWatchResponse(devices=devices)
        finally:
            with self.plugin._lock:
                self.plugin._streams.remove(entry)

    def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802 - API
        answer = self._answer("GetPreferredAllocation", request, context)
        return answer or preferring(*_lowest(request.container_requests[0]))

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802 - API
        answer = self._answer("Allocate", request, context)
        ids = ",".join(sorted(request.container_requests[0].devices_ids))
        response = api_pb2.ContainerAllocateResponse(envs={"VISIBLE": ids})
        return answer or api_pb2.AllocateResponse(container_responses=[response])

    def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802 - API
        answer = self._answer("PreStartContainer", request, context)
        return answer or api_pb2.PreStartContainerResponse()


def failing(text: str) -> Answer:
    """Fail every call with this text."""

    def fail(_request: Any, context: grpc.ServicerContext) -> None:
        context.abort(grpc.StatusCode.INTERNAL, text)

    return fail


def preferring(*ids: str) -> api_pb2.PreferredAllocationResponse:
    """The answer that prefers these ids."""
    response = api_pb2.ContainerPreferredAllocationResponse(deviceIDs=ids)
    return api_pb2.PreferredAllocationResponse(container_responses=[response])


def _lowest(request: Any) -> list[str]:
    must = sorted(request.must_include_deviceIDs)
    others = sorted(set(request.available_deviceIDs) - set(must))
    return [*must, *others][: request.allocation_size]
