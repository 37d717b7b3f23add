"""A container's devices: chosen, allocated by the plugin, remembered."""

import random
from dataclasses import dataclass, field

from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.model import ContainerEdits
from deviceplugin.simulation.kubelet import numa, wire
from deviceplugin.simulation.kubelet.changes import Journal
from deviceplugin.simulation.kubelet.choice import Choice
from deviceplugin.simulation.kubelet.holdings import Holding
from deviceplugin.simulation.kubelet.manager import Manager
from deviceplugin.simulation.kubelet.outcomes import (
    AllocationError,
    ContainerStartError,
    KubeletCrashedError,
)
from deviceplugin.simulation.kubelet.pods import Container

Lent = dict[str, set[str]]
"""Ids that finished init containers of a pod lend to later ones, by resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """One container's request of one resource."""

    uid: str
    container: Container
    resource: str
    size: int
    lent: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class Allocator:
    """Serves one pod at a time, as the kubelet's sync loop does."""

    manager: Manager
    journal: Journal
    chance: random.Random
    policy: numa.Policy = "none"
    numa_nodes: tuple[int, ...] | None = None
    _lent: dict[str, Lent] = field(default_factory=dict)

    def admit_container(self, uid: str, container: Container, *, running: bool) -> None:
        """Give a container what it asks for, resource by resource in random order.

        A running one passes unseen: it is what the checkpoint says it is.

        Raises:
            AllocationError: it cannot have it; nothing it was given is taken back.
            KubeletCrashedError: the plugin made the kubelet dereference nothing.

        """
        self._lent = {uid: self._lent.get(uid, {})}
        lent = self._lent[uid]
        limits = sorted(container.limits.items())
        for resource, size in self.chance.sample(limits, len(limits)):
            ids = frozenset(lent.get(resource, ()))
            want = Want(uid=uid, container=container, resource=resource, size=size, lent=ids)
            self._check_hints(want)
            if self.manager.knows(resource) and not running:
                self._serve(want)
        self._lend(lent, uid, container)

    def edits(self, uid: str, container: str) -> ContainerEdits:
        """Merge the answers for a container as the kubelet does: the first value wins."""
        merged = ContainerEdits()
        with self.journal.reading():
            held = self.manager.holdings.of(uid, container)
        for holding in self.chance.sample(held, len(held)):
            merged |= wire.edits(holding.answer)
        return merged

    def start_container(self, uid: str, container: Container) -> ContainerEdits:
        """Make a container's edits ready for its (re)start.

        A container without an entry is allocated for now: after a restart the
        kubelet may have lost it.

        Raises:
            ContainerStartError: PreStartContainer refused, or the devices cannot be had.

        """
        for resource, size in container.limits.items():
            if not self.manager.knows(resource):
                continue
            if self.manager.holdings.get(uid, container.name, resource) is None:
                self._serve_at_start(
                    Want(uid=uid, container=container, resource=resource, size=size)
                )
            self._pre_start(uid, container.name, resource)
        return self.edits(uid, container.name)

    # Choosing

    def _serve(self, want: Want) -> None:
        chosen = self._choose(want)
        if chosen:
            self._allocate(want, chosen)

    def _choose(self, want: Want) -> set[str]:
        """Check and choose; empty when the container holds everything already."""
        with self.journal.changing():
            if self._holds_all(want):
                return set()
            used = self.manager.allocated.setdefault(want.resource, set())
            free = self.manager.lists.healthy[want.resource] - used
            available = free - want.lent
            choice = self._choice(want, available)  # hints come before the count
            self._check_enough(want, free)
        chosen = choice.make()  # may ask the plugin: without the lock
        with self.journal.changing():
            self.manager.allocated.setdefault(want.resource, set()).update(chosen)
        return chosen

    def _choice(self, want: Want, available: set[str]) -> Choice:
        plugin = self.manager.primary(want.resource)
        offered = plugin is not None and plugin.options.get_preferred_allocation_available
        return Choice(
            size=want.size,
            reusable=set(want.lent),
            available=available,
            aligned=self._aligned(want, available),
            ask=plugin.preferred if offered and plugin is not None else None,
            chance=self.chance,
        )

    def _aligned(self, want: Want, available: set[str]) -> set[str] | None:
        listed = self.manager.lists.nodes.get(want.resource, {})
        request = numa.Request(listed=listed, available=available, lent=want.lent, size=want.size)
        nodes = numa.mask(self.policy, request, self.numa_nodes)
        return None if nodes is None else numa.aligned(listed, available, nodes)

    def _holds_all(self, want: Want) -> bool:
        """Go through the kubelet's checks, in its order.

        The last one comes too late to help a finished init container after a
        restart: while its plugin is not back, its pod is rejected.
        """
        resource = want.resource
        held = self.manager.holdings.get(want.uid, want.container.name, resource)
        ids = frozenset() if held is None else held.ids
        if ids and len(ids) != want.size:
            raise AllocationError(f"request for {resource} changed from {len(ids)} to {want.size}")
        healthy = self.manager.lists.healthy.get(resource)
        if healthy is None:
            raise AllocationError(f"cannot allocate unregistered device {resource}")
        if not healthy:
            raise AllocationError(
                f"no healthy devices present; cannot allocate unhealthy devices {resource}"
            )
        if not ids <= healthy:
            raise AllocationError(
                "previously allocated devices are no longer healthy; "
                f"cannot allocate unhealthy devices {resource}"
            )
        return bool(ids)

    def _check_enough(self, want: Want, free: set[str]) -> None:
        missing = want.size - len(want.lent)
        if missing > len(free):
            raise AllocationError(
                f"requested number of devices unavailable for {want.resource}. "
                f"Requested: {missing}, Available: {len(free)}"
            )

    # Allocating

    def _allocate(self, want: Want, chosen: set[str]) -> None:
        try:
            answers = self._ask(want.resource, chosen)
        except AllocationError:
            self._give_back()
            raise
        if not answers:
            # The real one forgets to give the devices back here; so does this.
            raise AllocationError("no containers return in allocation response")
        with self.journal.changing():
            nodes = {id_: self._nodes(want.resource, id_) for id_ in chosen}
            self.manager.holdings.add(
                Holding(
                    uid=want.uid,
                    container=want.container.name,
                    resource=want.resource,
                    nodes=nodes,
                    answer=answers[0],
                )
            )
            self.manager.save()

    def _ask(self, resource: str, ids: set[str]) -> list[api_pb2.ContainerAllocateResponse]:
        plugin = self.manager.primary(resource)
        if plugin is None:
            # Known from the checkpoint only: nobody registered in this life.
            raise AllocationError(f"endpoint of {resource} has been stopped")
        return plugin.allocate(self.chance.sample(sorted(ids), len(ids)))

    def _give_back(self) -> None:
        with self.journal.changing():
            self.manager.allocated = self.manager.holdings.in_use()

    def _nodes(self, resource: str, id_: str) -> tuple[int, ...]:
        listed = self.manager.lists.nodes.get(resource, {})
        if id_ not in listed:
            raise KubeletCrashedError(
                f"nil dereference: {id_} of {resource} vanished from the list "
                "before Allocate was answered"
            )
        return listed[id_]

    def _check_hints(self, want: Want) -> None:
        """Regenerate the hints of a pod that is admitted again: unlisted ids are fatal."""
        if self.policy == "none":
            return
        with self.journal.reading():
            held = self.manager.holdings.get(want.uid, want.container.name, want.resource)
            if held is None or not self.manager.lists.aligned(want.resource):
                return
            for id_ in held.ids:
                if id_ not in self.manager.lists.nodes[want.resource]:
                    raise KubeletCrashedError(
                        f"nil dereference: {id_} of {want.resource} is held and no longer listed"
                    )

    # Lending and starting

    def _lend(self, lent: Lent, uid: str, container: Container) -> None:
        with self.journal.reading():
            held = self.manager.holdings.of(uid, container.name)
        for holding in held:
            if container.ends_early:
                lent.setdefault(holding.resource, set()).update(holding.ids)
            else:
                lent.get(holding.resource, set()).difference_update(holding.ids)

    def _serve_at_start(self, want: Want) -> None:
        try:
            self._serve(want)
        except AllocationError as error:
            raise ContainerStartError(str(error)) from error

    def _pre_start(self, uid: str, container: str, resource: str) -> None:
        plugin = self.manager.primary(resource)
        held = self.manager.holdings.get(uid, container, resource)
        if plugin is None or held is None or not plugin.options.pre_start_required:
            return
        refused = plugin.pre_start(sorted(held.ids))
        if refused:
            raise ContainerStartError(f"device plugin PreStartContainer rpc failed: {refused}")
