"""A raw device plugin whose answers a test can replace, and a kubelet to serve it to."""

import queue
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc
from deviceplugin.simulation.kubelet import SimulatedKubelet

GPU = "nvidia.com/gpu"
ERAS = ("1.36", "1.37")

Answer = Callable[[Any], Any]


def device(id_: str, health: str = "Healthy", *nodes: int) -> api_pb2.Device:
    """One line of a list."""
    topology = api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=node) for node in nodes])
    return api_pb2.Device(ID=id_, health=health, topology=topology if nodes else None)


class RawPlugin(api_pb2_grpc.DevicePluginServicer):
    """Serves one resource on sockets of its own; does nothing a test did not ask for."""

    def __init__(self, folder: Path, resource: str = GPU) -> None:
        self.folder = folder
        self.resource = resource
        self.devices = [device(f"gpu-{n}") for n in range(8)]
        self.options = api_pb2.DevicePluginOptions(get_preferred_allocation_available=True)
        self.answers: dict[str, Answer] = {}
        self.calls: list[tuple[str, Any]] = []
        self.streams: list[tuple[str, queue.Queue[list[api_pb2.Device] | None]]] = []
        self.ended: list[str] = []
        self._servers: dict[str, tuple[grpc.Server, futures.ThreadPoolExecutor]] = {}
        self._lock = threading.Lock()

    # Life

    def serve(self, name: str) -> str:
        """Listen on a socket of that name."""
        pool = futures.ThreadPoolExecutor(16)
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        api_pb2_grpc.add_DevicePluginServicer_to_server(_Endpoint(self, name), server)
        server.add_insecure_port(f"unix:{self.folder / name}")
        server.start()
        self._servers[name] = (server, pool)
        return name

    def register(self, name: str, version: str = "v1beta1", timeout: float = 5.0) -> str:
        """Register; the error's text, or "" when accepted."""
        request = api_pb2.RegisterRequest(
            version=version, endpoint=name, resource_name=self.resource
        )
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"unix:{self.folder}/kubelet.sock", options=options) as channel:
            try:
                api_pb2_grpc.RegistrationStub(channel).Register(request, timeout=timeout)
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"
        return ""

    def up(self, name: str) -> str:
        """Serve and register; asserts that it was accepted."""
        error = self.register(self.serve(name))
        assert error == ""
        return name

    def stop(self, name: str) -> None:
        """Stop serving on a socket."""
        self.end_streams(name)
        server, pool = self._servers.pop(name)
        server.stop(None).wait(5)
        pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """Stop everything."""
        for name in list(self._servers):
            self.stop(name)

    # Lists

    def push(self, *devices: api_pb2.Device) -> None:
        """Send a new list on every open stream."""
        self.devices = list(devices)
        with self._lock:
            for _, lists in self.streams:
                lists.put(self.devices)

    def end_streams(self, name: str = "") -> None:
        """End the streams of a socket (of all) from this side."""
        with self._lock:
            for endpoint, lists in self.streams:
                if name in ("", endpoint):
                    lists.put(None)

    def open_streams(self, name: str = "") -> int:
        """How many streams are open on a socket (on all)."""
        with self._lock:
            return sum(name in ("", endpoint) for endpoint, _ in self.streams)

    def named(self, call: str) -> list[Any]:
        """The requests of one kind."""
        return [request for name, request in self.calls if name == call]


class _Endpoint(api_pb2_grpc.DevicePluginServicer):
    def __init__(self, plugin: RawPlugin, name: str) -> None:
        self.plugin = plugin
        self.name = name

    def _answer(self, call: str, request: Any, default: Any) -> Any:
        self.plugin.calls.append((call, request))
        answer = self.plugin.answers.get(call)
        return answer(request) if answer else default

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802 - API
        del context
        return self._answer("options", request, self.plugin.options)

    def ListAndWatch(self, request: Any, context: Any) -> Any:  # noqa: N802 - API
        self._answer("list", request, None)
        lists: queue.Queue[list[api_pb2.Device] | None] = queue.Queue()
        lists.put(self.plugin.devices)
        entry = (self.name, lists)
        with self.plugin._lock:
            self.plugin.streams.append(entry)
        context.add_callback(lambda: lists.put(None))
        try:
            while (devices := lists.get()) is not None:
                yield api_pb2.ListAndWatchResponse(devices=devices)
        finally:
            # Also where gRPC drops the generator, cancelled while a list was on its way.
            with self.plugin._lock:
                self.plugin.streams.remove(entry)
                self.plugin.ended.append(self.name)

    def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802 - API
        del context
        asked = request.container_requests[0]
        chosen = sorted(asked.available_deviceIDs)[: asked.allocation_size]
        reply = api_pb2.ContainerPreferredAllocationResponse(deviceIDs=chosen)
        default = api_pb2.PreferredAllocationResponse(container_responses=[reply])
        return self._answer("preferred", request, default)

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802 - API
        del context
        ids = ",".join(sorted(request.container_requests[0].devices_ids))
        reply = api_pb2.ContainerAllocateResponse(envs={"IDS": ids})
        default = api_pb2.AllocateResponse(container_responses=[reply])
        return self._answer("allocate", request, default)

    def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802 - API
        del context
        return self._answer("prestart", request, api_pb2.PreStartContainerResponse())


@pytest.fixture
def root() -> Iterator[Path]:
    """A kubelet folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="dp") as folder:
        yield Path(folder)


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """Each era in turn."""
    return str(request.param)


@pytest.fixture
def boot(root: Path) -> Iterator[Callable[..., SimulatedKubelet]]:
    """Start kubelets with the settings a test gives; all are stopped afterwards."""
    started: list[SimulatedKubelet] = []

    def start(**settings: Any) -> SimulatedKubelet:
        # Short for those that dial nobody, and long enough for a plugin on a busy machine.
        settings.setdefault("dial_seconds", 2.0)
        kubelet = SimulatedKubelet(root, **settings)
        kubelet.start()
        started.append(kubelet)
        return kubelet

    yield start
    for kubelet in started:
        kubelet.stop()


@pytest.fixture
def kubelet(boot: Callable[..., SimulatedKubelet], era: str) -> SimulatedKubelet:
    """A started kubelet of each era in turn."""
    return boot(era=era)


@pytest.fixture
def plugin(root: Path) -> Iterator[RawPlugin]:
    """A plugin with eight healthy devices, serving nothing yet."""
    raw = RawPlugin(root / "device-plugins")
    yield raw
    raw.close()


@pytest.fixture
def line() -> Callable[..., api_pb2.Device]:
    """Make a line of a list: id, health, NUMA nodes."""
    return device
