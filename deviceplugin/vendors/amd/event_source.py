"""Listens for resets that KFD tells of; opt-in, for it needs leave to open /dev/kfd."""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from deviceplugin.events import Emit
from deviceplugin.model import Action
from deviceplugin.vendors.amd.door import AmdDoor, KfdEvent, KfdEventKind, KfdEvents
from deviceplugin.vendors.amd.health import Gpu, Health

logger = logging.getLogger(__name__)

_RESETTING = "kfd-events"

_HARMLESS = {
    KfdEventKind.VM_FAULT: "vm-fault",
    KfdEventKind.THERMAL_THROTTLE: "thermal-throttle",
}
"""A program's own fault, and heat that passes: told and counted, the GPU stays Healthy."""


@dataclass(slots=True, kw_only=True)
class EventSource:
    """A ``Source``: a GPU is Unhealthy from the event before its reset to the one after it."""

    door: AmdDoor
    health: Health
    name: str = "amd-events"
    _why_not: str = ""
    _resetting: dict[str, float] = field(default_factory=dict)

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Listen until ``stop`` is set, while the config wants it."""
        while not stop.is_set():
            if not self.health.flags.kfd_events or self.health.why_away:
                self._end_all()
                stop.wait(self.health.timing.wait)
                continue
            gpus = _by_gpu_id(self.health.gpus)
            events = self._subscribe(gpus)
            if events is None:
                self._pause(stop)
                continue
            try:
                self._listen(events, gpus, emit, stop)
            finally:
                events.close()

    def _subscribe(self, gpus: Mapping[int, Gpu]) -> KfdEvents | None:
        try:
            events = self.door.subscribe(tuple(gpus))
        except OSError as error:
            self._say(f"{error.strerror or error}")
            return None
        self._say("")
        return events

    def _say(self, why: str) -> None:
        if why == self._why_not:
            return
        self._why_not = why
        if why:
            logger.warning(
                "GPU resets cannot be listened for: give the pod access to /dev/kfd, or write"
                " health.kfdEvents: false",
                extra={"why": why},
            )
        else:
            logger.info("listening for GPU resets")

    def _pause(self, stop: threading.Event) -> None:
        """Wait before another try, but not for longer than the config wants one."""
        until = self.health.clock() + self.health.timing.retry
        while not stop.is_set() and self.health.clock() < until and self.health.flags.kfd_events:
            stop.wait(self.health.timing.wait)

    def _listen(
        self, events: KfdEvents, gpus: Mapping[int, Gpu], emit: Emit, stop: threading.Event
    ) -> None:
        while not stop.is_set() and self._is_current(gpus):
            try:
                came = events.wait(self.health.timing.wait)
            except OSError as error:
                self._say(f"{error.strerror or error}")
                stop.wait(self.health.timing.wait)
                return
            for event in came:
                gpu = gpus.get(event.gpu_id)
                if gpu:
                    self._take(event, gpu, emit)
            self._renew(emit)

    def _is_current(self, gpus: Mapping[int, Gpu]) -> bool:
        wanted = self.health.flags.kfd_events and not self.health.why_away
        return wanted and set(gpus) == set(_by_gpu_id(self.health.gpus))

    def _take(self, event: KfdEvent, gpu: Gpu, emit: Emit) -> None:
        if event.kind in _HARMLESS:
            kind = _HARMLESS[KfdEventKind(event.kind)]
            self.health.symptom(gpu.id, kind, event.detail, Action.EVENT, emit)
        elif event.kind == KfdEventKind.GPU_PRE_RESET:
            self._resetting.setdefault(gpu.address, self.health.clock())
            self._condemn()
        elif event.kind == KfdEventKind.GPU_POST_RESET and gpu.address in self._resetting:
            # A partitioned GPU tells once for each partition: the first one counts.
            self._resetting.pop(gpu.address)
            self._condemn()
            self.health.reset(gpu.address, emit)

    def _renew(self, emit: Emit) -> None:
        """A reset that has not ended is seen again and again."""
        for address, since in self._resetting.items():
            gpu = self.health.gpus.get(address)
            if gpu:
                seconds = self.health.clock() - since
                detail = f"a reset began {seconds:.0f} s ago and has not ended"
                self.health.symptom(gpu.id, "resetting", detail, Action.RECOVER, emit)

    def _end_all(self) -> None:
        # Nobody will tell us of the end: the poll alone judges from here on.
        if self._resetting:
            self._resetting.clear()
            self._condemn()

    def _condemn(self) -> None:
        gpus = (self.health.gpus.get(address) for address in self._resetting)
        self.health.condemned[_RESETTING] = frozenset(gpu.id for gpu in gpus if gpu)


def _by_gpu_id(gpus: Mapping[str, Gpu]) -> dict[int, Gpu]:
    return {gpu_id: gpu for gpu in gpus.values() for gpu_id in gpu.gpu_ids}
