"""The device manager of one kubelet process: registrations, streams, counts."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.simulation.kubelet import checkpoint, registry
from deviceplugin.simulation.kubelet.changes import Change, ChangeKind, Journal
from deviceplugin.simulation.kubelet.devices import DeviceLists
from deviceplugin.simulation.kubelet.holdings import Holdings
from deviceplugin.simulation.kubelet.outcomes import RegistrationRefusedError
from deviceplugin.simulation.kubelet.plugin import Plugin, described
from deviceplugin.simulation.kubelet.pod_table import name_in

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a kubelet goes by, over all its restarts.

    Attributes:
        era: "1.36" (and before) or "1.37".
        grace: seconds from the loss of a resource's last plugin until it is dropped.
        clock: what the grace is measured with.
        disconnect_delay: seconds from a stream's end until it is handled, up to 1.36.
        late_end: what handling it late does to a plugin registered meanwhile.
        dial_seconds: how long Register tries to reach the plugin's socket.

    """

    era: str
    grace: float
    clock: Callable[[], float]
    disconnect_delay: float
    late_end: registry.LateEnd
    dial_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Devices by resource, as they go into the node's status."""

    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)


class Manager:
    """One life of the device manager; a restart makes another over the same checkpoint."""

    def __init__(self, folder: Path, journal: Journal, rules: Rules) -> None:
        """Read the checkpoint: known resources come up with zero devices and no plugin."""
        self._folder = folder
        self._journal = journal
        self._rules = rules
        self._stopping = threading.Event()
        self._plugins: list[Plugin] = []
        self._threads: list[threading.Thread] = []
        self._registry = registry.registry(rules.era, rules.late_end)
        self.lists = DeviceLists()
        saved = checkpoint.read(folder)
        self.holdings = Holdings(saved.holdings)
        self.allocated = self.holdings.in_use()
        self._gone_since = dict.fromkeys(saved.resources, rules.clock())
        for resource in saved.resources:
            self.lists.restore(resource)

    @property
    def stopping(self) -> bool:
        """Whether this life is over."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Break every connection, as the end of the process would."""
        self._stopping.set()
        with self._journal.reading():
            plugins, threads = tuple(self._plugins), tuple(self._threads)
        for plugin in plugins:
            plugin.close()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout=5)

    def register(self, resource: str, endpoint: str, options_seconds: float | None) -> None:
        """Dial a plugin back, ask for its options, and start to watch its list.

        Raises:
            RegistrationRefusedError: it cannot be reached, or may not register so.

        """
        plugin = Plugin(resource, self._folder / endpoint.lstrip("/"))
        with self._journal.changing():
            self._plugins.append(plugin)
            self._registry.opening(plugin)
        try:
            plugin.connect(self._rules.dial_seconds, options_seconds)
            with self._journal.changing():
                self._connected(plugin)
        except RegistrationRefusedError:
            with self._journal.changing():
                self._registry.failed(plugin)
                self._plugins.remove(plugin)
            plugin.close()
            raise
        self._start_watching(plugin)

    def primary(self, resource: str) -> Plugin | None:
        """Whoever is asked to allocate; None while nobody registered in this life."""
        with self._journal.reading():
            return self._registry.primary(resource)

    def knows(self, resource: str) -> bool:
        """Whether the device manager feels responsible for a resource."""
        with self._journal.reading():
            return resource in self.lists.healthy or resource in self.allocated

    def counts(self) -> Counts:
        """Count, and drop what has been without a plugin for longer than the grace."""
        with self._journal.reading():
            late = [each for each in self.lists.resources() if self._expired(each)]
        if late:
            with self._journal.changing():
                for resource in late:
                    self._drop(resource)
        with self._journal.reading():
            return self._count()

    def free_all_but(self, uids: set[str]) -> None:
        """Take devices back from pods that are gone; also mends what leaked."""
        with self._journal.reading():
            if self.holdings.keep_only(uids):
                self.allocated = self.holdings.in_use()
                self.save()

    def save(self) -> None:
        """Write the checkpoint; a full or read-only disk costs only that."""
        with self._journal.reading():
            if self.stopping:  # a dead process writes over nobody's file
                return
            try:
                checkpoint.write(self._folder, self.lists.resources(), self.holdings)
            except OSError as error:
                logger.warning("checkpoint cannot be written", extra={"error": str(error)})

    def cut(self, resource: str) -> None:
        """Cancel the streams of a resource."""
        with self._journal.reading():
            plugins = [each for each in self._plugins if each.resource == resource]
        for plugin in plugins:
            plugin.cut()

    # Registration

    def _connected(self, plugin: Plugin) -> None:
        if self.stopping:
            raise RegistrationRefusedError("the kubelet is stopping")
        self._registry.connected(plugin)
        self._gone_since.pop(plugin.resource, None)
        self._journal.note(
            Change(kind=ChangeKind.REGISTERED, resource=plugin.resource, detail=plugin.path.name)
        )

    # Streams

    def _start_watching(self, plugin: Plugin) -> None:
        thread = threading.Thread(
            target=self._watch, args=(plugin,), name=f"list-{plugin.path.name}", daemon=True
        )
        with self._journal.reading():
            self._threads = [each for each in self._threads if each.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _watch(self, plugin: Plugin) -> None:
        detail = "ended by the plugin"
        try:
            for message in plugin.lists():
                self._received(plugin, message)
        except grpc.RpcError as error:
            detail = described(error)
        delay = self._rules.disconnect_delay if self._rules.era == "1.36" else 0.0
        if not self._stopping.wait(delay):
            self._ended(plugin, detail)

    def _received(self, plugin: Plugin, message: api_pb2.ListAndWatchResponse) -> None:
        if self.stopping:
            return
        with self._journal.changing():
            changed = self.lists.changed(plugin.resource, message.devices)
            self.lists.replace(plugin.resource, message.devices)
            self._tell_pods(plugin.resource, changed)
            self._note(ChangeKind.LIST, plugin)
            self.save()

    def _tell_pods(self, resource: str, ids: Iterable[str]) -> None:
        """Have the status of holders written again.

        Up to 1.36 one holder is looked up by id alone: where resources share ids, it may be
        a pod that does not hold this one.
        """
        among = None if self._rules.era == "1.36" else resource
        uids = {uid for id_ in ids for uid in self.holdings.holders(id_, among)[:1]}
        for uid in sorted(uids):
            self._journal.note(
                Change(kind=ChangeKind.POD_STATUS, resource=resource, pod=name_in(uid))
            )

    def _ended(self, plugin: Plugin, detail: str) -> None:
        with self._journal.changing():
            ending = self._registry.ended(plugin)
            if ending.close in self._plugins:
                self._plugins.remove(ending.close)
            if ending.stopped is not None:
                ending.stopped.stopped = self._rules.clock()
                self._gone_since[plugin.resource] = self._rules.clock()
            if ending.lost:
                self.lists.lost(plugin.resource)
            self._note(ChangeKind.STREAM_ENDED, plugin, detail)
        if ending.close is not None:
            ending.close.close()

    def _note(self, kind: ChangeKind, plugin: Plugin, detail: str = "") -> None:
        healthy = frozenset(self.lists.healthy.get(plugin.resource, ()))
        unhealthy = self.lists.unhealthy.get(plugin.resource, set())
        self._journal.note(
            Change(
                kind=kind,
                resource=plugin.resource,
                detail=detail or plugin.path.name,
                healthy=healthy,
                ids=healthy | unhealthy,
            )
        )

    # Counts

    def _expired(self, resource: str) -> bool:
        since = self._gone_since.get(resource)
        return since is not None and self._rules.clock() - since > self._rules.grace

    def _drop(self, resource: str) -> None:
        self.lists.drop(resource)
        self._registry.forget(resource)
        self._gone_since.pop(resource, None)
        self.save()
        self._journal.note(Change(kind=ChangeKind.DROPPED, resource=resource))

    def _count(self) -> Counts:
        healthy, unhealthy = self.lists.healthy, self.lists.unhealthy
        return Counts(
            capacity={
                each: len(healthy.get(each, ())) + len(unhealthy.get(each, ()))
                for each in self.lists.resources()
            },
            allocatable={each: len(ids) for each, ids in healthy.items()},
        )
