"""One serving generation: a socket name that is used once, and the gRPC server behind it."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc

from deviceplugin import channels
from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc
from deviceplugin.errors import DevicePluginError
from deviceplugin.events import Emit, StreamsChanged
from deviceplugin.kubelet import sockets
from deviceplugin.kubelet.options import KubeletOptions
from deviceplugin.kubelet.servicer import Servicer
from deviceplugin.kubelet.streams import Streams
from deviceplugin.model import ResourceName, Views
from deviceplugin.published import Published

_CUT_OFF = 0.5  # seconds for calls to end that were cut off after the grace


class ServingError(DevicePluginError):
    """A socket could not be made or does not answer."""


class Generation:
    """Serves one resource on one socket until stopped; not started again."""

    def __init__(
        self,
        resource: ResourceName,
        options: KubeletOptions,
        views: Published[Views],
        emit: Emit,
        changed: Callable[[], None],
    ) -> None:
        """Name the socket; nothing is opened.

        ``changed`` is called, and must not block, whenever a stream opens or ends.

        Raises:
            SocketPathError: the plugin folder's path is too long.

        """
        self.resource = resource
        self.path = sockets.fresh(options.plugin_dir, options.vendor, resource)
        self._options = options
        self._views = views
        self._emit = emit
        self._changed = changed
        self.streams = Streams(options.stream_slots, self._on_streams)
        self._inode: sockets.Inode | None = None
        self._server: grpc.Server | None = None
        self._pool = ThreadPoolExecutor(
            max_workers=options.stream_slots + options.unary_reserve,
            thread_name_prefix=f"rpc-{resource}",
        )

    @property
    def endpoint(self) -> str:
        """What Register names."""
        return self.path.name

    def _on_streams(self, count: int) -> None:
        self._emit(StreamsChanged(resource=self.resource, open=count, at=time.monotonic()))
        self._changed()

    def open(self) -> None:
        """Bind, serve, and ask ourselves.

        Raises:
            ServingError: the socket cannot be made, does not answer, or is gone again.

        """
        server = self._server = grpc.server(self._pool)
        servicer = Servicer(self.resource, self._views, self.streams, self._emit)
        api_pb2_grpc.add_DevicePluginServicer_to_server(servicer, server)
        self._bind(server)
        server.start()
        self._inode = sockets.inode(self.path)
        problem = self.self_check()
        # A starting kubelet wipes the folder: a registration of a wiped socket fails late.
        if problem or not self.is_intact():
            raise ServingError(problem or f"{self.path} was removed at once: trying again")

    def _bind(self, server: grpc.Server) -> None:
        try:
            server.add_insecure_port(channels.target(self.path))
        except RuntimeError as error:
            raise ServingError(self._unbound(str(error))) from error

    def _unbound(self, why: str) -> str:
        return (
            f"no socket can be made in {self.path.parent} ({why}): see that the folder is there,"
            " mounted read-write, and that we may write to it"
        )

    def is_intact(self) -> bool:
        """Whether our path still is our socket; a kubelet's start removes it."""
        return self._inode is not None and sockets.inode(self.path) == self._inode

    def self_check(self) -> str:
        """Ask ourselves over our own socket; "" or why there was no answer."""
        with channels.to_socket(self.path) as channel:
            stub = api_pb2_grpc.DevicePluginStub(channel)
            try:
                stub.GetDevicePluginOptions(
                    api_pb2.Empty(), timeout=self._options.self_check_deadline
                )
            except grpc.RpcError as error:
                return f"own socket {self.path} does not answer: {channels.reason(error)}"
        return ""

    def stop(self, seconds: float) -> bool:
        """End the streams, then the server, and remove the socket if it is ours.

        Returns whether all ended within ``seconds`` without being cut off.
        """
        self.streams.stopping = True
        self._views.wake()
        ended = self._stop_server(seconds)
        self._pool.shutdown(wait=False)
        if self._inode is not None:
            sockets.remove_own(self.path, self._inode)
        return ended

    def _stop_server(self, seconds: float) -> bool:
        if self._server is None:
            return True
        ended = self._server.stop(seconds)
        if ended.wait(seconds):
            return True
        ended.wait(_CUT_OFF)
        return False
