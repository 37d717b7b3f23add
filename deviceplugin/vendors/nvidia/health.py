"""What the NVIDIA threads know together: which GPUs to watch, and what ails the monitoring.

Scan, events and poll each run on a thread. What they share is kept here, each value
written by one of them and replaced whole, so that no lock is held over a driver call.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deviceplugin.events import Emit, Symptom, WasReset
from deviceplugin.model import Action, DeviceId
from deviceplugin.published import Published
from deviceplugin.vendors.nvidia import recovery
from deviceplugin.vendors.nvidia.door import Code, NvmlError

WHOLE = frozenset(
    {
        Code.UNINITIALIZED,
        Code.DRIVER_NOT_LOADED,
        Code.LIBRARY_NOT_FOUND,
        Code.LIB_RM_VERSION_MISMATCH,
    }
)
"""Codes that speak of the driver and not of the GPU that was asked for."""

GONE = frozenset({Code.GPU_IS_LOST, Code.NOT_FOUND})
"""Codes that say: this GPU is not there any more. Every other one may have another cause."""


RECOVERY_ACTION = "recovery-action"
"""Kind of the fault that stands while the driver asks for something to be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Paces and bounds of the health threads, in seconds; lowered by tests.

    Attributes:
        poll: between two polls of all GPUs.
        calm_rounds: a GPU with nothing against it is said to be good every so many polls:
            each event costs the loop a turn.
        suspicion: a GPU counts as suspect, and each good poll is said, for so long after
            its last symptom; longer than the longest hold-down.
        wait: one event wait; a stop or a new GPU is noticed after it.
        first_retry, last_retry: pauses after an event set broke, doubling.
        retry_gpu: until a GPU that could not be registered for events is tried again.
        watch: between two looks for a call that hangs.

    """

    poll: float = 1.0
    calm_rounds: int = 10
    suspicion: float = 600.0
    wait: float = 1.0
    first_retry: float = 1.0
    last_retry: float = 30.0
    retry_gpu: float = 30.0
    watch: float = 1.0


@dataclass(slots=True, kw_only=True)
class Health:
    """State shared by the threads.

    Attributes:
        watched: UUIDs of the GPUs to watch; one that was lost stays. The scan's.
        session: rises when event registrations made before no longer count. The poll's.
        ailments: part ("scan", "events", "poll") → why it cannot watch; each its own key.
        reloads: how often a driver that was away came back; its GPUs are as after a reset.

    """

    timing: Timing = field(default_factory=Timing)
    clock: Callable[[], float] = time.monotonic
    watched: Published[tuple[str, ...]] = field(default_factory=lambda: Published(()))
    session: int = 0
    ailments: dict[str, str] = field(default_factory=dict)
    reloads: int = 0
    _suspects: dict[str, float] = field(default_factory=dict)
    _owed: set[str] = field(default_factory=set)
    _asked: set[str] = field(default_factory=set)

    def ail(self, part: str, why: str) -> bool:
        """Say why ``part`` cannot watch ("" when it can); whether that is news."""
        before = self.ailments.get(part, "")
        self.ailments[part] = why
        return before != why

    def symptom(self, uuid: str, kind: str, detail: str, action: Action, emit: Emit) -> None:
        """Emit a symptom and keep an eye on its GPU."""
        now = self.clock()
        self._suspects[uuid] = now
        emit(Symptom(device=DeviceId(uuid), kind=kind, detail=detail, action=action, at=now))

    def suspect(self, uuid: str) -> bool:
        """Whether the GPU had a symptom not long ago."""
        seen = self._suspects.get(uuid)
        return seen is not None and self.clock() - seen <= self.timing.suspicion

    def reset(self, uuid: str | None, emit: Emit) -> None:
        """Emit that a GPU (None: each of them) was reset; register for its events anew.

        For the poll's thread.
        """
        emit(WasReset(device=None if uuid is None else DeviceId(uuid), at=self.clock()))
        self.session += 1

    def demanded(self, uuid: str, value: int, emit: Emit) -> bool:
        """Take in the GPU's recovery action; returns whether it keeps the GPU from pods."""
        demand = recovery.demand(value)
        if demand:
            if demand.action in (Action.RESET, Action.REBOOT):
                self._owed.add(uuid)
            self._asked.add(uuid)
            self.symptom(uuid, RECOVERY_ACTION, demand.text, demand.action, emit)
            return demand.action is not Action.EVENT
        if uuid in self._owed:
            self._owed.discard(uuid)
            self.reset(uuid, emit)
        elif uuid not in self._asked:
            # A GPU can be reset only while nobody has it open, us included: an operator
            # stops this daemon first, and the fault that we kept is over when we are back.
            emit(WasReset(device=DeviceId(uuid), at=self.clock(), witness=RECOVERY_ACTION))
        self._asked.add(uuid)
        return False


def speaks_of_driver(errors: list[NvmlError | None]) -> NvmlError | None:
    """Return the error that shows the driver as a whole failing, if these answers do.

    One code that speaks of the driver is enough. When no GPU answers and none is said to
    be gone, the cause is more likely ours (a device cgroup that was rewritten, a library
    that lost its kernel side) than every GPU at once: unknown is not unhealthy.
    """
    failed = [error for error in errors if error]
    whole = next((error for error in failed if error.code in WHOLE), None)
    if whole or not failed or len(failed) < len(errors):
        return whole
    specific = GONE | {Code.RESET_REQUIRED}
    return None if any(error.code in specific for error in failed) else failed[0]
