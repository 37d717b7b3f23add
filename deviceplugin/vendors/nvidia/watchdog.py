"""Says in what state the monitoring is: a call that hangs, a driver that answers nobody."""

import threading
from dataclasses import dataclass

from deviceplugin.events import BackendChanged, Emit
from deviceplugin.model import BackendState
from deviceplugin.vendors.nvidia.calls import Calls
from deviceplugin.vendors.nvidia.health import Health

_Condition = tuple[BackendState, str]


@dataclass(slots=True, kw_only=True)
class Watchdog:
    """A ``Source`` that makes no driver call, so it goes on when all the others hang.

    What the scan finds wrong is said by the scan; this adds what only the health threads
    see, and takes it back.
    """

    calls: Calls
    health: Health
    name: str = "nvidia-watchdog"
    _said: _Condition = (BackendState.READY, "")

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Look until ``stop`` is set."""
        while not stop.wait(self.health.timing.watch):
            self._look(emit)

    def _look(self, emit: Emit) -> None:
        hang = self.calls.hanging()
        if hang:
            self._say((BackendState.DRIVER_HUNG, str(hang)), hang.since, emit)
        elif not self.health.ailments.get("scan"):
            self._say(self._condition(), self.health.clock(), emit)

    def _condition(self) -> _Condition:
        ailments = self.health.ailments
        why = ailments.get("poll") or ailments.get("events")
        return (BackendState.MONITOR_LOST, why) if why else (BackendState.READY, "")

    def _say(self, condition: _Condition, at: float, emit: Emit) -> None:
        if condition != self._said:
            self._said = condition
            emit(BackendChanged(state=condition[0], detail=condition[1], at=at))
