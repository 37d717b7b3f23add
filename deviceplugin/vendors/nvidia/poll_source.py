"""Asks each GPU once a second whether it works: finds what no event announces."""

import logging
import threading
from dataclasses import dataclass, field

from deviceplugin.events import Emit, SeenGood
from deviceplugin.model import Action, DeviceId
from deviceplugin.vendors.nvidia.door import Code, Nvml, NvmlError
from deviceplugin.vendors.nvidia.health import GONE, Health, speaks_of_driver

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class PollSource:
    """A ``Source``: symptoms, good polls, resets. The driver as a whole failing judges no GPU."""

    door: Nvml
    health: Health
    name: str = "nvidia-poll"
    _rounds: int = 0
    _gone: set[str] = field(default_factory=set)
    _doubted: set[str] = field(default_factory=set)
    _reloads: int = 0

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Poll until ``stop`` is set, never more often than the timing says."""
        while not stop.is_set():
            began = self.health.clock()
            self._round(emit)
            # From start to start, so that a slow round does not stretch the time to notice.
            spent = self.health.clock() - began
            stop.wait(max(self.health.timing.poll - spent, self.health.timing.poll / 10))

    def _round(self, emit: Emit) -> None:
        uuids = self.health.watched.value
        errors = [self._ask(uuid) for uuid in uuids]
        broken = speaks_of_driver(errors)
        if self.health.ail("poll", str(broken) if broken else "") and broken:
            logger.warning("GPUs cannot be polled", extra={"error": str(broken)})
        if broken:
            self._doubted.clear()
            return
        self._note_reload(emit)
        for uuid, error in zip(uuids, errors, strict=True):
            self._judge(uuid, error, emit)
        self._rounds += 1

    def _ask(self, uuid: str) -> NvmlError | None:
        try:
            self.door.check(uuid)
        except NvmlError as error:
            return error
        return None

    def _note_reload(self, emit: Emit) -> None:
        if self._reloads != self.health.reloads:
            self._reloads = self.health.reloads
            logger.info("the driver was loaded anew; faults that waited for a reset are over")
            self.health.reset(None, emit)

    def _judge(self, uuid: str, error: NvmlError | None, emit: Emit) -> None:
        if error:
            self._fault(uuid, error, emit)
            return
        self._doubted.discard(uuid)
        if uuid in self._gone:
            # The driver gives up a lost GPU for good; one that answers was brought up anew.
            self._gone.discard(uuid)
            self.health.reset(uuid, emit)
        if not self._demanded(uuid, emit) and self._worth_saying(uuid):
            emit(SeenGood(device=DeviceId(uuid), at=self.health.clock()))

    def _fault(self, uuid: str, error: NvmlError, emit: Emit) -> None:
        if error.code in GONE:
            self._gone.add(uuid)
            self.health.symptom(uuid, "lost", str(error), Action.RECOVER, emit)
        elif error.code == Code.RESET_REQUIRED:
            self._gone.add(uuid)
            self.health.symptom(uuid, "reset-required", str(error), Action.RESET, emit)
        elif uuid in self._doubted:
            self.health.symptom(uuid, "not-answering", str(error), Action.RECOVER, emit)
        else:
            # The driver as a whole may have begun to fail within this round.
            self._doubted.add(uuid)

    def _demanded(self, uuid: str, emit: Emit) -> bool:
        try:
            value = self.door.recovery_action(uuid)
        except NvmlError as error:
            # It answered a moment ago; the next round tells whether it still does.
            logger.debug("recovery action not read", extra={"gpu": uuid, "error": str(error)})
            return True
        return value is not None and self.health.demanded(uuid, value, emit)

    def _worth_saying(self, uuid: str) -> bool:
        return self.health.suspect(uuid) or self._rounds % self.health.timing.calm_rounds == 0
