"""The Registration service on kubelet.sock."""

from collections.abc import Callable
from dataclasses import dataclass

import grpc

from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc
from deviceplugin.simulation.kubelet import names
from deviceplugin.simulation.kubelet.changes import Change, ChangeKind, Journal
from deviceplugin.simulation.kubelet.manager import Manager
from deviceplugin.simulation.kubelet.outcomes import RegistrationRefusedError

_FOREVER = 1e6  # gRPC shows a call without a deadline as one in the far future


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationService(api_pb2_grpc.RegistrationServicer):
    """Answers Register only after it has dialled the plugin back.

    Attributes:
        refused: a text to refuse the next request with, or "".

    """

    manager: Manager
    journal: Journal
    refused: Callable[[], str]

    def Register(  # noqa: N802 - the API's name
        self, request: api_pb2.RegisterRequest, context: grpc.ServicerContext
    ) -> api_pb2.Empty:
        """Register a plugin, or abort with UNKNOWN and the reason, as a Go server does."""
        try:
            self._register(request, context.time_remaining())
        except RegistrationRefusedError as error:
            self._note(request, str(error))
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return api_pb2.Empty()

    def _register(self, request: api_pb2.RegisterRequest, left: float | None) -> None:
        refusal = self.refused() or names.refusal(request)
        if refusal:
            raise RegistrationRefusedError(refusal)
        # The options are asked for within the caller's own deadline.
        seconds = None if left is None or left > _FOREVER else left
        self.manager.register(request.resource_name, request.endpoint, seconds)

    def _note(self, request: api_pb2.RegisterRequest, why: str) -> None:
        detail = f"{request.endpoint}: {why}"
        with self.journal.changing():
            self.journal.note(
                Change(kind=ChangeKind.REFUSED, resource=request.resource_name, detail=detail)
            )
