"""Waits for what the driver reports by itself: XIDs first of all."""

import logging
import sys
import threading
from contextlib import closing
from dataclasses import dataclass, field

from deviceplugin.events import Emit
from deviceplugin.model import Action
from deviceplugin.sources import Backoff
from deviceplugin.vendors.nvidia import xids
from deviceplugin.vendors.nvidia.door import Code, EventSet, GpuEvent, Nvml, NvmlError
from deviceplugin.vendors.nvidia.health import Health

logger = logging.getLogger(__name__)

_ANY_VERSION = sys.maxsize  # we wait for a condition, not for a version

_OTHERS = {
    # The XID of the same fault follows and has its own action.
    "dbe": (Action.EVENT, "double bit ECC error"),
    "unavailable": (Action.RECOVER, "the driver reports the GPU as unavailable"),
}


@dataclass(slots=True, kw_only=True)
class EventSource:
    """A ``Source``: one event set, each GPU registered once, made anew after an error."""

    door: Nvml
    health: Health
    name: str = "nvidia-events"
    _failures: int = 0
    _session_seen: int = 0
    _retry_at: dict[str, float] = field(default_factory=dict)
    _asked_at: dict[str, float] = field(default_factory=dict)

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Wait for events until ``stop`` is set."""
        while not stop.is_set():
            if not self.health.watched.value:
                self._await_gpus()
                continue
            try:
                self._session(emit, stop)
            except NvmlError as error:
                self._pause(error, stop)

    def _await_gpus(self) -> None:
        """Wait for the first scan: what a GPU reports before it is registered is lost."""
        watched = self.health.watched
        limit = min(self.health.timing.wait, 0.25)  # the stop flag wakes nobody
        watched.wait(_ANY_VERSION, lambda: bool(watched.value), limit)

    def _session(self, emit: Emit, stop: threading.Event) -> None:
        """Use one event set until the registrations in it no longer count."""
        session = self.health.session
        if session != self._session_seen:
            self._session_seen = session
            self._retry_at.clear()
        with closing(self.door.events(())) as events:
            registered: set[str] = set()
            while not stop.is_set() and self.health.session == session:
                self._register(events, registered)
                event = events.wait(int(self.health.timing.wait * 1000))
                self._recovered()
                if event:
                    self._tell(event, emit)

    def _register(self, events: EventSet, registered: set[str]) -> None:
        now = self.health.clock()
        for uuid in self.health.watched.value:
            if uuid not in registered and self._retry_at.get(uuid, now) <= now:
                self._register_one(events, uuid, registered)

    def _register_one(self, events: EventSet, uuid: str, registered: set[str]) -> None:
        # One GPU that cannot be registered takes no other's events away.
        try:
            events.register(uuid)
        except NvmlError as error:
            if error.code == Code.UNINITIALIZED:
                raise
            self._skip(uuid, error, registered)
        else:
            registered.add(uuid)
            self._retry_at.pop(uuid, None)

    def _skip(self, uuid: str, error: NvmlError, registered: set[str]) -> None:
        again = uuid in self._retry_at
        if error.code == Code.NOT_SUPPORTED:
            registered.add(uuid)
        self._retry_at[uuid] = self.health.clock() + self.health.timing.retry_gpu
        if not again:
            fields = {"gpu": uuid, "error": str(error)}
            logger.warning("GPU reports no events, it is only polled", extra=fields)

    def _tell(self, event: GpuEvent, emit: Emit) -> None:
        if event.uuid is None:
            # Whose it is will show in the poll; guessing would take a good GPU away.
            logger.warning("event of an unknown GPU", extra={"kind": event.kind, "xid": event.xid})
            return
        if event.xid is not None:
            rule = xids.rule(event.xid)
            self.health.symptom(event.uuid, xids.kind(event.xid), rule.name, rule.action, emit)
        elif event.kind in _OTHERS:
            action, text = _OTHERS[event.kind]
            self.health.symptom(event.uuid, event.kind, text, action, emit)
        self._ask_for_recovery(event.uuid, emit)

    def _ask_for_recovery(self, uuid: str, emit: Emit) -> None:
        # At once, not at the next poll: the driver's word decides what the XID leaves open.
        # In a storm of events the next poll is soon enough.
        now = self.health.clock()
        if now - self._asked_at.get(uuid, float("-inf")) < self.health.timing.poll:
            return
        self._asked_at[uuid] = now
        try:
            value = self.door.recovery_action(uuid)
        except NvmlError as error:
            logger.debug("recovery action not read", extra={"gpu": uuid, "error": str(error)})
            return
        if value:
            self.health.demanded(uuid, value, emit)

    def _recovered(self) -> None:
        if self._failures:
            logger.info("driver events are back", extra={"failures": self._failures})
        self._failures = 0
        self.health.ail("events", "")

    def _pause(self, error: NvmlError, stop: threading.Event) -> None:
        """Wait before the next event set: a wait that fails at once must not become a loop."""
        self._failures += 1
        if self.health.ail("events", str(error)):
            logger.warning("driver events cannot be read", extra={"error": str(error)})
        stop.wait(self._delay(error))

    def _delay(self, error: NvmlError) -> float:
        timing = self.health.timing
        if error.code == Code.UNINITIALIZED:
            # The scan has closed NVML and opens it again; asking costs no driver call.
            return timing.first_retry
        return Backoff(first=timing.first_retry, limit=timing.last_retry).delay(self._failures)
