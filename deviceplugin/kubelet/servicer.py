"""The DevicePlugin RPCs of one resource, answered from the published snapshot.

No driver, no file, and no lock that is held while anything waits. The names of the
methods are the kubelet's.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence

import grpc

from deviceplugin.allocation.allocate import allocate
from deviceplugin.allocation.preferred import preferred
from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc
from deviceplugin.errors import AllocationRefusedError
from deviceplugin.events import Allocated, Emit, ListSent, PreferredAnswered
from deviceplugin.kubelet import replies, wire
from deviceplugin.kubelet.streams import Streams
from deviceplugin.model import ContainerEdits, ResourceName, ResourceView, Unit, UnitId, Views
from deviceplugin.published import Published

logger = logging.getLogger(__name__)

_BEFORE_ALL = -1


class Servicer(api_pb2_grpc.DevicePluginServicer):
    """Answers for ``resource``; a resource that no view has is an empty list."""

    def __init__(
        self, resource: ResourceName, views: Published[Views], streams: Streams, emit: Emit
    ) -> None:
        self._resource = resource
        self._views = views
        self._streams = streams
        self._emit = emit
        self._listed: tuple[tuple[Unit, ...], api_pb2.ListAndWatchResponse] | None = None

    def GetDevicePluginOptions(  # noqa: N802 - the RPC's name
        self, request: api_pb2.Empty, context: grpc.ServicerContext
    ) -> api_pb2.DevicePluginOptions:
        """Preferred allocation yes, PreStartContainer no."""
        del request, context
        return wire.OPTIONS

    def ListAndWatch(  # noqa: N802 - the RPC's name
        self, request: api_pb2.Empty, context: grpc.ServicerContext
    ) -> Iterator[api_pb2.ListAndWatchResponse]:
        """Send the whole list at once, then whenever it differs."""
        del request
        ticket = self._streams.enter()
        if not ticket:
            replies.exhausted(context)
        try:
            yield from self._lists(context, ticket)
        finally:
            self._streams.leave(ticket)

    def _lists(
        self, context: grpc.ServicerContext, ticket: int
    ) -> Iterator[api_pb2.ListAndWatchResponse]:
        gone = self._when_gone(context)
        version, sent = _BEFORE_ALL, None
        while True:
            version, views = self._views.wait(
                version, lambda: gone.is_set() or self._streams.stopping, None
            )
            if gone.is_set() or self._streams.stopping:
                return
            units, message = self._list(views)
            if message != sent:
                yield message
                sent = message
                if self._streams.is_kubelets(ticket):
                    self._report_list(units, message)

    def _when_gone(self, context: grpc.ServicerContext) -> threading.Event:
        """Have a flag set, and the stream woken, when the peer cancels or dies."""
        gone = threading.Event()

        def on_end() -> None:
            gone.set()
            self._views.wake()

        if not context.add_callback(on_end):
            gone.set()
        return gone

    def _list(self, views: Views) -> tuple[tuple[Unit, ...], api_pb2.ListAndWatchResponse]:
        view = views.get(self._resource)
        units = view.units if view else ()
        listed = self._listed
        # Another resource's change wakes us too; thousands of units are not built again for it.
        if listed is None or listed[0] is not units:
            listed = self._listed = (units, wire.list_message(units))
        return listed

    def _report_list(self, units: tuple[Unit, ...], message: api_pb2.ListAndWatchResponse) -> None:
        at = self._streams.note_sent(units)
        self._emit(
            ListSent(
                resource=self._resource,
                units=len(units),
                healthy=sum(unit.healthy for unit in units),
                size=message.ByteSize(),
                at=at,
            )
        )

    def Allocate(  # noqa: N802 - the RPC's name
        self, request: api_pb2.AllocateRequest, context: grpc.ServicerContext
    ) -> api_pb2.AllocateResponse:
        """Answer each container request with one container response, or refuse the whole."""
        begun = time.monotonic()
        requests = wire.requested(request)
        try:
            response = wire.allocate_response(self._edits(requests))
        except AllocationRefusedError as error:
            self._report_allocated(requests, str(error), begun)
            replies.refused(context, error)
        except Exception as error:  # noqa: BLE001 - an RPC's edge; replies logs it
            self._report_allocated(requests, "internal error", begun)
            replies.failed(context, "Allocate", self._resource, error)
        self._report_allocated(requests, "", begun)
        return response

    def _edits(self, requests: Sequence[Sequence[UnitId]]) -> list[ContainerEdits]:
        view = self._views.value.get(self._resource)
        if view is None:
            raise replies.not_served(self._resource)
        edits = allocate(view, requests)
        if len(edits) != len(requests):
            # The kubelet loses the devices of a container that gets no response.
            raise RuntimeError(f"{len(edits)} answers to {len(requests)} container requests")
        return edits

    def _report_allocated(
        self, requests: Sequence[Sequence[UnitId]], refused: str, begun: float
    ) -> None:
        now = time.monotonic()
        units = tuple(unit for request in requests for unit in request)
        self._emit(
            Allocated(
                resource=self._resource, units=units, refused=refused, seconds=now - begun, at=now
            )
        )

    def GetPreferredAllocation(  # noqa: N802 - the RPC's name
        self, request: api_pb2.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> api_pb2.PreferredAllocationResponse:
        """Choose for each container; an error of ours becomes an empty choice.

        The kubelet fails the pod on an error, and chooses by itself on an empty answer.
        """
        del context
        begun = time.monotonic()
        view = self._views.value.get(self._resource)
        chosen = [self._choose(view, each) for each in request.container_requests]
        self._report_preferred(request, begun)
        return wire.preferred_response(chosen)

    def _choose(
        self,
        view: ResourceView | None,
        request: api_pb2.ContainerPreferredAllocationRequest,
    ) -> Sequence[UnitId]:
        if view is None:
            return ()
        available = [UnitId(i) for i in request.available_deviceIDs]
        must_include = [UnitId(i) for i in request.must_include_deviceIDs]
        try:
            return preferred(view, available, must_include, request.allocation_size)
        except Exception:
            logger.exception("no preferred allocation", extra={"resource": self._resource})
            return ()

    def _report_preferred(self, request: api_pb2.PreferredAllocationRequest, begun: float) -> None:
        now = time.monotonic()
        size = sum(each.allocation_size for each in request.container_requests)
        self._emit(
            PreferredAnswered(resource=self._resource, size=size, seconds=now - begun, at=now)
        )

    def PreStartContainer(  # noqa: N802 - the RPC's name
        self, request: api_pb2.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> api_pb2.PreStartContainerResponse:
        """Let the container start; the kubelet asks only plugins that wish it."""
        del request, context
        return api_pb2.PreStartContainerResponse()
