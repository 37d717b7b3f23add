"""The kubelet's end of the connection to one registered plugin."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import grpc

from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc
from deviceplugin.simulation.kubelet.outcomes import AllocationError, RegistrationRefusedError

RECEIVE_LIMIT = 4 * 1024 * 1024  # gRPC's default, which the kubelet never raised
_NO_SUCH_CALL = "/v1beta1.DevicePlugin/Dial"
_SLICE = 0.1  # seconds
PRE_START_SECONDS = 30.0  # the one time limit written into the API itself

_CHANNEL = (
    ("grpc.max_receive_message_length", RECEIVE_LIMIT),
    ("grpc.default_authority", "localhost"),
    # A connection per registration, as the kubelet has it: gRPC would share
    # one between channels to the same path.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class Plugin:
    """One registration's connection: its stream and the calls on it.

    Attributes:
        stopped: when the kubelet took the plugin for gone, on the kubelet's own
            clock; None while it counts as there.

    """

    def __init__(self, resource: str, path: Path, *, stopped: float | None = None) -> None:
        """Connect nothing yet."""
        self.resource = resource
        self.path = path
        self.stopped = stopped
        self.options = api_pb2.DevicePluginOptions()
        self._channel: grpc.Channel | None = None
        self._stream: grpc.CallIterator[api_pb2.ListAndWatchResponse] | None = None
        self._closed = threading.Event()

    def connect(self, dial_seconds: float, options_seconds: float | None) -> None:
        """Dial the plugin's socket and ask for its options.

        Args:
            dial_seconds: how long to try to connect.
            options_seconds: how long all of this may take; None for as long as it takes.

        Raises:
            RegistrationRefusedError: no connection in time, or no options.

        """
        began = time.monotonic()
        self._channel = grpc.insecure_channel(f"unix:{self.path}", options=_CHANNEL)
        if not self._dialled(self._channel, time.monotonic() + dial_seconds):
            raise RegistrationRefusedError(
                f"failed to dial device plugin: no answer on {self.path} in {dial_seconds:g} s"
            )
        left = None
        if options_seconds is not None:
            left = max(0.0, began + options_seconds - time.monotonic())
        try:
            self.options = self._stub().GetDevicePluginOptions(api_pb2.Empty(), timeout=left)
        except grpc.RpcError as error:
            raise RegistrationRefusedError(
                f"failed to get device plugin options: {described(error)}"
            ) from error

    def lists(self) -> Iterator[api_pb2.ListAndWatchResponse]:
        """Yield the lists of one ListAndWatch call; ends or raises RpcError as the stream does."""
        try:
            self._stream = self._stub().ListAndWatch(api_pb2.Empty())
        except ValueError:  # closed meanwhile
            return
        yield from self._stream

    def cut(self) -> None:
        """Cancel the stream; the connection stays."""
        if self._stream is not None:
            self._stream.cancel()  # type: ignore[no-untyped-call]  # the stubs leave it bare

    def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> list[str]:
        """Ask which devices the plugin would rather give.

        Raises:
            AllocationError: it answered with an error.

        """
        request = api_pb2.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        try:
            answer = self._stub().GetPreferredAllocation(
                api_pb2.PreferredAllocationRequest(container_requests=[request])
            )
        except (grpc.RpcError, ValueError) as error:
            raise AllocationError(
                f"device plugin GetPreferredAllocation rpc failed with err: {described(error)}"
            ) from error
        return [id_ for each in answer.container_responses[:1] for id_ in each.deviceIDs]

    def allocate(self, ids: Sequence[str]) -> list[api_pb2.ContainerAllocateResponse]:
        """Have the plugin prepare devices for one container; no time limit, as in the kubelet.

        Raises:
            AllocationError: it answered with an error, or is gone.

        """
        if self.stopped is not None:
            raise AllocationError(f"endpoint {self.path} has been stopped")
        request = api_pb2.ContainerAllocateRequest(devices_ids=ids)
        try:
            answer = self._stub().Allocate(api_pb2.AllocateRequest(container_requests=[request]))
        except (grpc.RpcError, ValueError) as error:
            raise AllocationError(described(error)) from error
        return list(answer.container_responses)

    def pre_start(self, ids: Sequence[str]) -> str:
        """Tell the plugin that a container is about to start; "" or why it must not."""
        if self.stopped is not None:
            return f"endpoint {self.path} has been stopped"
        request = api_pb2.PreStartContainerRequest(devices_ids=ids)
        try:
            self._stub().PreStartContainer(request, timeout=PRE_START_SECONDS)
        except (grpc.RpcError, ValueError) as error:
            return described(error)
        return ""

    def close(self) -> None:
        """Close the connection; calls that wait on it end at once."""
        self._closed.set()
        if self._channel is not None:
            # On a thread of its own: close waits for calls that it has cancelled.
            name = f"close-{self.path.name}"
            threading.Thread(target=self._channel.close, name=name, daemon=True).start()

    def _dialled(self, channel: grpc.Channel, deadline: float) -> bool:
        """Whether somebody answers on the socket before the deadline, and before our end.

        Asked for by a call that no plugin has: its refusal comes over a live connection.
        gRPC's own readiness future is not used, since the thread behind it fails when the
        channel is closed meanwhile.
        """
        ask = channel.unary_unary(
            _NO_SUCH_CALL, request_serializer=bytes, response_deserializer=bytes
        )
        while not self._closed.is_set() and time.monotonic() < deadline:
            # In slices, between which our end is noticed.
            limit = min(_SLICE, max(0.0, deadline - time.monotonic()))
            try:
                ask(b"", timeout=limit, wait_for_ready=True)
            except (grpc.RpcError, ValueError) as error:
                code = getattr(error, "code", None)
                if code is not None and code() is grpc.StatusCode.UNIMPLEMENTED:
                    return True
        return False

    def _stub(self) -> api_pb2_grpc.DevicePluginStub:
        if self._channel is None:
            raise ValueError("not connected")
        return api_pb2_grpc.DevicePluginStub(self._channel)


def described(error: Exception) -> str:
    """Word an RPC's error as a Go client prints it."""
    code, details = getattr(error, "code", None), getattr(error, "details", None)
    if code is not None and details is not None:
        return f"rpc error: code = {code().name} desc = {details()}"
    return f"endpoint has been closed: {error}"
