"""The composition root and the one loop: events in, views out. The only writer.

Everything else emits frozen events into the queue or reads what is published here.
A turn folds the waiting events, plans, and publishes what differs; nothing in it is slow.
"""

import collections
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deviceplugin import events as ev
from deviceplugin import inventory as inv
from deviceplugin import sources, state
from deviceplugin.backend import Backend, Configurable
from deviceplugin.config.settings import RunSettings
from deviceplugin.discovery import Discovery
from deviceplugin.faults import judged
from deviceplugin.first_config import FirstConfig
from deviceplugin.first_list import FirstList
from deviceplugin.kubelet.manager import KubeletSide
from deviceplugin.kubelet.options import KubeletOptions
from deviceplugin.model import BackendState, Views
from deviceplugin.observe import status as observing
from deviceplugin.observe.journal import Journal
from deviceplugin.published import Published
from deviceplugin.sharing import engine
from deviceplugin.sharing import vendor as vendors
from deviceplugin.sharing.listing import Listing
from deviceplugin.state_writer import StateWriter
from deviceplugin.watch.config_file import ConfigWatch, read

logger = logging.getLogger(__name__)

LONGEST_TURN = 5.0
"""Seconds: the loop turns at least so often, so that the liveness probe can tell it is alive."""

FIRST_LIST_EVERY = 0.1
"""Seconds between looks at whether the first list may go out, while time alone can decide it."""

BATCH = 1000
"""Events folded in one turn at most; a storm of them must not keep a list from going out."""

EXIT = 0.5
"""Seconds of the time limit that are left for the end of the process itself."""

HELD_KEPT = 1.0
"""Seconds until what was allocated is in the state folder: a restart must know who holds what."""

SERVED_LATER = 0.01
"""Seconds: what only counts and logs (an Allocate) is folded so much later, many at a time.
Done at once, it would take the interpreter from the very reply that the kubelet waits for."""

_ONLY_SERVING = (ev.Allocated, ev.PreferredAnswered, ev.ListSent, ev.StreamsChanged)


class Daemon:
    """One vendor's devices, from the driver to the kubelet."""

    def __init__(
        self,
        settings: RunSettings,
        backend: Backend,
        status: Published[observing.Status],
        environment: Mapping[str, str],
        *,
        on_registered: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nothing starts here. ``on_registered`` is called at each accepted registration."""
        self._settings = settings
        self._backend = backend
        self._vendor = vendors.of(backend)
        self._status = status
        self._environment = environment
        self._on_registered = on_registered
        self._clock = clock
        self._queue: queue.SimpleQueue[ev.Event | None] = queue.SimpleQueue()
        self._served: collections.deque[ev.Event] = collections.deque()
        self._views: Published[Views] = Published({})
        self._kept: Published[state.State | None] = Published(None)
        self._journal = Journal()
        self._kubelet = KubeletSide(kubelet_options(settings), self._views, self.emit)
        self._discovery = Discovery(
            backend=backend,
            rescan=settings.timings.rescan,
            retry_limit=settings.timings.driver_retry,
            clock=clock,
        )
        self._config_watch = ConfigWatch(settings.config, settings.vendor, environment)
        self._state_file = settings.state_dir / f"{settings.vendor}.json"
        self._identity = state.Identity(
            plugin_dir=str(settings.plugin_dir),
            library=str(settings.nvml_library or ""),
            machine=settings.simulate,
        )
        self._first_list = FirstList(started=clock(), bus_wait=settings.timings.bus_wait)
        self._inventory = inv.Inventory()
        self._listing = Listing()
        self._wake_at = clock()
        self._draining = False
        self._config_text = ""

    def emit(self, event: ev.Event) -> None:
        """Hand an event to the loop; from any thread, never blocks."""
        if self._draining or not isinstance(event, _ONLY_SERVING):
            self._queue.put(event)
            return
        self._served.append(event)
        if len(self._served) == 1:
            self.wake()

    def wake(self) -> None:
        """Have the loop look at its stop flag; safe in a signal handler."""
        self._queue.put(None)

    def self_check(self) -> str:
        """Ask our own sockets; "" or why one is dead. For liveness probes, any thread."""
        return self._kubelet.self_check()

    def run(self, stop: threading.Event) -> None:
        """Serve until ``stop`` is set (and ``wake`` called), then end in order."""
        ending = threading.Event()
        self._restore()
        threads = self._start(ending)
        try:
            while not stop.is_set():
                self._turn()
        finally:
            self._end(threads, ending)

    # Start and end

    def _restore(self) -> None:
        """Begin with what the last process knew, and with the config as it stands."""
        boot = boot_id(self._settings.procfs)
        kept, note = state.load(self._state_file, self._identity, boot)
        if note:
            ignored = note.startswith("state ignored")
            level = logging.WARNING if ignored else logging.INFO
            logger.log(level, "state folder", extra={"note": note})
        self._inventory, self._listing = state.restore(kept, _bounds(self._settings))
        self._config_text = kept.config_text or ""
        first = FirstConfig(
            vendor=self._settings.vendor,
            environment=self._environment,
            last_good=kept.config_text,
            last_source=kept.config_source,
        )
        found = read(self._settings.config, self._settings.vendor, self._environment, self._clock())
        self._config_watch.saw(found)
        for event in first.events(found):
            self._fold(event)

    def _start(self, ending: threading.Event) -> Sequence[threading.Thread]:
        self._kubelet.start()
        self._kubelet.watch(active=bool(self._inventory.known))
        writer = StateWriter(path=self._state_file, wanted=self._kept, clock=self._clock)
        work = (self._discovery, *self._backend.sources(), self._config_watch, writer)
        return [sources.start(source, self.emit, ending) for source in work]

    def _end(self, threads: Sequence[threading.Thread], ending: threading.Event) -> None:
        """Streams first: the kubelet must see a clean end. Then the rest, within the time limit."""
        deadline = self._clock() + self._settings.timings.stop - EXIT
        ending.set()
        self._discovery.soon()
        self._kept.wake()
        self._config_watch.wake()
        self._kubelet.stop(self._settings.timings.stop)
        left = sources.join(threads, max(0.1, deadline - self._clock()))
        if left:
            logger.warning("gave up on background work", extra={"threads": ", ".join(left)})

    # The loop

    def _turn(self) -> None:
        batch = self._wait()
        before = self._inventory
        for event in batch:
            self._fold(event)
        now = self._clock()
        self._see_hang(now)
        if self._must_plan(batch, before, now):
            self._plan(now)
        self._status.set(replace(self._status.value, beat=now))

    def _wait(self) -> Sequence[ev.Event]:
        """Events that are there, at least one unless the time came to plan anyway."""
        timeout = min(LONGEST_TURN, max(0.0, self._wake_at - self._clock()))
        batch: list[ev.Event] = []
        with contextlib.suppress(queue.Empty):
            event = self._queue.get(timeout=timeout)
            if event is None and self._served:
                event = self._queue.get(timeout=SERVED_LATER)
            while event is not None and len(batch) < BATCH:
                batch.append(event)
                event = self._queue.get_nowait()
        while self._served:
            batch.append(self._served.popleft())
        return batch

    def _fold(self, event: ev.Event) -> None:
        self._inventory = inv.apply(self._inventory, event)
        self._status.set(observing.apply(self._status.value, event))
        self._journal.event(event)
        match event:
            case ev.ConfigAccepted(config=config, text=text):
                self._config_text = text
                if isinstance(self._backend, Configurable):
                    self._backend.configure(config)
            case ev.HardwareChanged():
                self._discovery.soon()
            case ev.RegistrationTried(error=""):
                self._on_registered()
            case ev.Symptom():
                action = judged(event.kind, event.action, self._inventory.policy)
                known = self._inventory.known.get(event.device)
                self._journal.symptom(event, action, known.device if known else None)
            case _:
                pass

    def _see_hang(self, now: float) -> None:
        """A driver call cannot be ended, but it can be told that it hangs."""
        since = self._discovery.busy_since
        hung = since is not None and now - since > self._settings.timings.scan_hung
        if hung and self._inventory.backend is not BackendState.DRIVER_HUNG:
            detail = f"a scan has not ended for {now - (since or now):.0f} s"
            self._fold(ev.BackendChanged(state=BackendState.DRIVER_HUNG, detail=detail, at=now))
            self._discovery.forget()

    def _must_plan(self, batch: Sequence[ev.Event], before: inv.Inventory, now: float) -> bool:
        if now >= self._wake_at or not self._status.value.listed:
            return True
        # While nothing drains, an Allocate changes no list; a thousand of them cost nothing.
        if not self._draining and all(isinstance(event, _ONLY_SERVING) for event in batch):
            if batch:
                self._wake_at = min(self._wake_at, now + HELD_KEPT)  # for the state folder
            return False
        return not inv.settled(before, self._inventory)

    def _plan(self, now: float) -> None:
        """Make the next list of everything, and publish what differs."""
        if not self._status.value.listed and self._waits(now):
            return
        outcome = engine.advance(self._inventory, self._listing, now, self._vendor)
        self._listing, self._draining = outcome.listing, outcome.draining
        self._wake_at = outcome.wake_at if outcome.wake_at is not None else now + LONGEST_TURN
        self._views.set(outcome.views)
        self._serve(outcome)
        self._report(outcome)
        kept = state.snapshot(self._inventory, self._listing, self._config_text, self._identity)
        self._kept.set(kept)

    def _waits(self, now: float) -> bool:
        why = self._first_list.waits_for(self._inventory, now)
        self._journal.waiting(why)
        # Every event has us look again; only the waits that end by time need a short turn.
        self._wake_at = now + (
            FIRST_LIST_EVERY if self._first_list.ends_by_time(now) else LONGEST_TURN
        )
        self._kubelet.watch(active=bool(self._inventory.known))
        return bool(why)

    def _serve(self, outcome: engine.Outcome) -> None:
        self._kubelet.serve(name for name, view in outcome.views.items() if view.units)
        self._kubelet.pace(draining=outcome.draining)
        if outcome.ask_holders:
            self._kubelet.ask_holders()

    def _report(self, outcome: engine.Outcome) -> None:
        faults = self._inventory.verdict()
        lines = tuple(str(unmet) for unmet in outcome.unmet)
        missing = [device.id for device in self._inventory.missing()]
        health = observing.health(self._inventory.devices.values(), faults, missing)
        self._status.set(
            observing.with_views(self._status.value, outcome.views, devices=health, unmet=lines)
        )
        self._journal.verdicts(faults, self._inventory.all_devices())
        self._journal.unmet(lines)


def boot_id(procfs: Path) -> str:
    """The kernel's id of this boot; "" where it cannot be read, which ends no fault."""
    try:
        return (procfs / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _bounds(settings: RunSettings) -> inv.Bounds:
    timings = settings.timings
    return inv.Bounds(
        withdrawn_hold=timings.withdrawn_hold,
        restart_hold=timings.restart_hold,
        recovery_hold=timings.recovery_hold,
    )


def kubelet_options(settings: RunSettings) -> KubeletOptions:
    """What the kubelet side needs of the settings."""
    timings = settings.timings
    return KubeletOptions(
        vendor=settings.vendor,
        plugin_dir=settings.plugin_dir,
        pod_resources=settings.pod_resources,
        take_over=settings.take_over,
        register_deadline=timings.register_deadline,
        backoff_first=timings.backoff_first,
        backoff_limit=timings.backoff_limit,
        stream_pause=timings.stream_pause,
        stream_expected=timings.stream_expected,
        holders_poll=timings.holders_poll,
        holders_poll_draining=timings.holders_poll_draining,
        holders_deadline=timings.holders_deadline,
        audit_interval=timings.audit_interval,
        audit_settle=timings.audit_settle,
    )
