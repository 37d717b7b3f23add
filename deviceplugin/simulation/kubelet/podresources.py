"""The PodResources service: which pod holds what, and what could be had."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import grpc

from deviceplugin.api.podresources.v1 import api_pb2, api_pb2_grpc
from deviceplugin.simulation.kubelet.changes import Journal
from deviceplugin.simulation.kubelet.manager import Manager
from deviceplugin.simulation.kubelet.pod_table import PodRecord, PodTable

PER_SECOND = 100.0  # the kubelet's own limit, over all clients of the node
BURST = 10.0


class RateLimit:
    """A bucket of tokens that fills again with time."""

    def __init__(self, per_second: float, burst: float) -> None:
        """Start full."""
        self._per_second = per_second
        self._burst = burst
        self._tokens = burst
        self._filled = time.monotonic()
        self._lock = threading.Lock()

    def allows(self) -> bool:
        """Take a token, if there is one."""
        with self._lock:
            now = time.monotonic()
            gained = (now - self._filled) * self._per_second
            self._tokens = min(self._burst, self._tokens + gained)
            self._filled = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResourcesService(api_pb2_grpc.PodResourcesListerServicer):
    """Lists active pods; plain init containers are left out."""

    manager: Manager
    journal: Journal
    pods: PodTable
    limit: RateLimit | None

    def List(  # noqa: N802 - the API's name
        self, request: api_pb2.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> api_pb2.ListPodResourcesResponse:
        """All active pods; devices of pods that are gone are taken back first."""
        del request
        self._throttle(context)
        self.manager.free_all_but(self.pods.active_uids())
        with self.journal.reading():
            listed = [self._pod(record) for record in self.pods.active()]
        return api_pb2.ListPodResourcesResponse(pod_resources=listed)

    def Get(  # noqa: N802 - the API's name
        self, request: api_pb2.GetPodResourcesRequest, context: grpc.ServicerContext
    ) -> api_pb2.GetPodResourcesResponse:
        """One active pod; UNKNOWN where there is none of that name."""
        self._throttle(context)
        with self.journal.reading():
            record = self.pods.get(request.pod_name)
            if record is None or record.pod.namespace != request.pod_namespace:
                where = f"pod {request.pod_name} in namespace {request.pod_namespace}"
                context.abort(grpc.StatusCode.UNKNOWN, f"{where} not found")
            return api_pb2.GetPodResourcesResponse(pod_resources=self._pod(record))

    def GetAllocatableResources(  # noqa: N802 - the API's name
        self, request: api_pb2.AllocatableResourcesRequest, context: grpc.ServicerContext
    ) -> api_pb2.AllocatableResourcesResponse:
        """All healthy devices, held or not."""
        del request
        self._throttle(context)
        lists = self.manager.lists
        with self.journal.reading():
            devices = [
                entry
                for resource, ids in lists.healthy.items()
                for id_ in sorted(ids)
                for entry in _entries(resource, id_, lists.nodes[resource][id_])
            ]
        return api_pb2.AllocatableResourcesResponse(devices=devices)

    def _throttle(self, context: grpc.ServicerContext) -> None:
        if self.limit is not None and not self.limit.allows():
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _pod(self, record: PodRecord) -> api_pb2.PodResources:
        containers = [
            api_pb2.ContainerResources(name=each.name, devices=self._devices(record.uid, each.name))
            for each in record.pod.containers
            if not each.ends_early
        ]
        return api_pb2.PodResources(
            name=record.pod.name, namespace=record.pod.namespace, containers=containers
        )

    def _devices(self, uid: str, container: str) -> Iterator[api_pb2.ContainerDevices]:
        for holding in self.manager.holdings.of(uid, container):
            for id_, nodes in sorted(holding.nodes.items()):
                yield from _entries(holding.resource, id_, nodes)


def _entries(resource: str, id_: str, nodes: tuple[int, ...]) -> Iterator[api_pb2.ContainerDevices]:
    """One entry for each NUMA node; one without topology where there is none."""
    if not nodes:
        yield api_pb2.ContainerDevices(resource_name=resource, device_ids=[id_])
    for node in nodes:
        yield api_pb2.ContainerDevices(
            resource_name=resource,
            device_ids=[id_],
            topology=api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=node)]),
        )
