"""One kubelet process: from its start to its death."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deviceplugin.api.podresources.v1.api_pb2_grpc import add_PodResourcesListerServicer_to_server
from deviceplugin.api.v1beta1.api_pb2_grpc import add_RegistrationServicer_to_server
from deviceplugin.simulation.kubelet import podresources, sockets
from deviceplugin.simulation.kubelet.allocation import Allocator
from deviceplugin.simulation.kubelet.changes import Journal
from deviceplugin.simulation.kubelet.manager import Manager, Rules
from deviceplugin.simulation.kubelet.numa import Policy
from deviceplugin.simulation.kubelet.pod_table import PodRecord, PodTable
from deviceplugin.simulation.kubelet.registration import RegistrationService
from deviceplugin.simulation.kubelet.sockets import SocketServer

# A Register waits for the dial back: enough of them at once for every plugin of a node.
_REGISTRATION_THREADS = 16
_POD_RESOURCES_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What stays when a kubelet process dies."""

    registry_socket: Path
    pod_resources_socket: Path
    journal: Journal
    pods: PodTable
    chance: random.Random
    rules: Rules
    policy: Policy
    numa_nodes: tuple[int, ...] | None
    rate_limited: bool
    refused: Callable[[], str]


class Process:
    """The device manager with its two sockets."""

    def __init__(self, node: Node) -> None:
        """Read the checkpoint; nothing listens yet."""
        node.registry_socket.parent.mkdir(parents=True, exist_ok=True)
        node.pod_resources_socket.parent.mkdir(parents=True, exist_ok=True)
        self._node = node
        self.manager = Manager(node.registry_socket.parent, node.journal, node.rules)
        self.allocator = Allocator(
            manager=self.manager,
            journal=node.journal,
            chance=node.chance,
            policy=node.policy,
            numa_nodes=node.numa_nodes,
        )
        self._servers = [self._pod_resources(), self._registration()]

    def start(self) -> None:
        """Wipe the plugin folder's sockets, then listen."""
        sockets.wipe(self._node.registry_socket.parent)
        for server in self._servers:
            server.start()

    def stop(self) -> None:
        """Die: every stream and call breaks, the socket files stay. May be repeated."""
        if not self.manager.stopping:
            self.manager.stop()
            for server in self._servers:
                server.stop()

    def admit(self, record: PodRecord) -> None:
        """Have every container of a pod allocated, in start order.

        Raises:
            AllocationError: the pod fails.
            KubeletCrashedError: so does the kubelet.

        """
        self.manager.free_all_but(self._node.pods.active_uids())
        for container in record.pod.in_start_order():
            running = container.name in record.running
            self.allocator.admit_container(record.uid, container, running=running)

    def _registration(self) -> SocketServer:
        server = SocketServer(
            self._node.registry_socket, threads=_REGISTRATION_THREADS, name="kubelet-register"
        )
        service = RegistrationService(
            manager=self.manager, journal=self._node.journal, refused=self._node.refused
        )
        add_RegistrationServicer_to_server(service, server.server)
        return server

    def _pod_resources(self) -> SocketServer:
        server = SocketServer(
            self._node.pod_resources_socket, threads=_POD_RESOURCES_THREADS, name="kubelet-pods"
        )
        limited = self._node.rate_limited
        service = podresources.PodResourcesService(
            manager=self.manager,
            journal=self._node.journal,
            pods=self._node.pods,
            limit=podresources.RateLimit(podresources.PER_SECOND, podresources.BURST)
            if limited
            else None,
        )
        add_PodResourcesListerServicer_to_server(service, server.server)
        return server
