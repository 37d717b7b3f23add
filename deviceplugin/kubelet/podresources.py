"""Asks PodResources who holds what, with deadlines of our own."""

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import grpc

from deviceplugin import channels
from deviceplugin.api.podresources.v1 import api_pb2, api_pb2_grpc
from deviceplugin.events import HoldersAnswered, HoldersUnavailable
from deviceplugin.kubelet.sockets import PATH_LIMIT
from deviceplugin.model import ResourceName, UnitId

_RETRY = 0.2  # the kubelet refills a hundred calls a second for all of the node
_BUSY = grpc.StatusCode.RESOURCE_EXHAUSTED


class PodResources:
    """The PodResources socket of this node."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def ask(self, seconds: float) -> HoldersAnswered | HoldersUnavailable:
        """Ask both questions; all within ``seconds``. A busy kubelet is asked again."""
        deadline = time.monotonic() + seconds
        if len(os.fsencode(self._socket)) > PATH_LIMIT:
            return HoldersUnavailable(why=_too_long(self._socket), at=time.monotonic())
        # A channel of its own each time: the socket may be another kubelet's by now.
        with channels.to_socket(self._socket) as channel:
            stub = api_pb2_grpc.PodResourcesListerStub(channel)
            while True:
                try:
                    return _ask(stub, deadline)
                except grpc.RpcError as error:
                    if error.code() is not _BUSY or time.monotonic() + _RETRY > deadline:
                        return self._unavailable(error)
                time.sleep(_RETRY)

    def _unavailable(self, error: grpc.RpcError) -> HoldersUnavailable:
        return HoldersUnavailable(
            why=f"{self._socket} does not answer: {channels.reason(error)}", at=time.monotonic()
        )


def _too_long(socket: Path) -> str:
    # gRPC would say so at each poll, in lines of its own on standard error.
    return (
        f"{socket} is longer than the {PATH_LIMIT} bytes that a socket's path may have:"
        " name a shorter one with --pod-resources"
    )


def _ask(stub: api_pb2_grpc.PodResourcesListerStub, deadline: float) -> HoldersAnswered:
    begun = time.monotonic()
    pods = stub.List(api_pb2.ListPodResourcesRequest(), timeout=deadline - begun)
    healthy = stub.GetAllocatableResources(
        api_pb2.AllocatableResourcesRequest(), timeout=deadline - time.monotonic()
    )
    return HoldersAnswered(
        begun=begun,
        held=_by_resource(
            devices
            for pod in pods.pod_resources
            for container in pod.containers
            for devices in container.devices
        ),
        allocatable=_by_resource(healthy.devices),
        at=time.monotonic(),
    )


def _by_resource(
    devices: Iterable[api_pb2.ContainerDevices],
) -> Mapping[ResourceName, frozenset[UnitId]]:
    """Collect ids; a device of two NUMA nodes comes twice and counts once."""
    found: defaultdict[ResourceName, set[UnitId]] = defaultdict(set)
    for each in devices:
        found[ResourceName(each.resource_name)].update(UnitId(i) for i in each.device_ids)
    return {resource: frozenset(ids) for resource, ids in found.items()}
