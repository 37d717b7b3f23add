"""One Register call, which can be given up."""

import threading
from collections.abc import Callable
from typing import Self

import grpc

from deviceplugin import channels
from deviceplugin.api.v1beta1 import api_pb2_grpc
from deviceplugin.kubelet import wire
from deviceplugin.kubelet.options import KubeletOptions
from deviceplugin.model import ResourceName
from deviceplugin.watch import kubelet_socket


class RegisterCall:
    """Asks the kubelet to dial ``endpoint``, in the background, with a deadline.

    The kubelet dials back and asks our options before it answers, so the thread that
    waits here must not be one that serves.
    """

    def __init__(
        self,
        options: KubeletOptions,
        endpoint: str,
        resource: ResourceName,
        done: Callable[[], None],
    ) -> None:
        """``done`` is called, and must not block, when the call ended."""
        self._finished = threading.Event()
        self._done = done
        self._channel = channels.to_socket(options.plugin_dir / kubelet_socket.NAME)
        self._future = api_pb2_grpc.RegistrationStub(self._channel).Register.future(
            wire.register_request(endpoint, resource), timeout=options.register_deadline
        )
        self._future.add_done_callback(self._finish)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._future.cancel()  # type: ignore[no-untyped-call]  # the stubs forgot its type
        self._channel.close()

    def _finish(self, _future: object) -> None:
        self._finished.set()
        self._done()

    @property
    def done(self) -> bool:
        """Whether there is an answer; takes no lock of gRPC's."""
        return self._finished.is_set()

    def error(self, otherwise: str) -> str:
        """Say how it ended: "" when accepted, ``otherwise`` when there is no answer yet."""
        if not self.done:
            return otherwise
        try:
            self._future.result()
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            return f"Register failed: {_text(error)}"
        return ""


def _text(error: Exception) -> str:
    return channels.reason(error) if isinstance(error, grpc.RpcError) else str(error)
