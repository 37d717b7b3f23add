"""The scan thread: looks at the hardware again and again, and says what it found.

A driver that is not there yet, or not any more, is a state with a name and a retry;
a device that appears or goes is in the next scan.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deviceplugin.backend import Backend, BackendUnavailableError
from deviceplugin.events import BackendChanged, Emit, Scanned
from deviceplugin.model import BackendState

FIRST_RETRY = 0.25
"""Seconds; doubles up to the limit. A driver that comes 0.2 s late delays nobody by seconds."""


@dataclass(slots=True, kw_only=True)
class Discovery:
    """A ``Source`` that scans through the backend.

    Attributes:
        rescan: seconds between scans that went well.
        retry_limit: longest pause in seconds after one that did not.
        busy_since: when the scan under way began; None between scans. A driver call
            that hangs shows here, to whoever has a clock.

    """

    backend: Backend
    rescan: float
    retry_limit: float
    clock: Callable[[], float] = time.monotonic
    name: str = "discovery"
    busy_since: float | None = field(default=None, init=False)
    _said: tuple[BackendState, str] | None = field(default=None, init=False)
    _asked: threading.Event = field(default_factory=threading.Event, init=False)

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Scan until ``stop`` is set."""
        retry = FIRST_RETRY
        while not stop.is_set():
            # Cleared first: a change that is seen during the scan is looked at once more.
            self._asked.clear()
            if self._scan(emit):
                retry = FIRST_RETRY
                self._rest(self.rescan, stop)
            else:
                self._rest(retry, stop)
                retry = min(retry * 2, self.retry_limit)

    def _scan(self, emit: Emit) -> bool:
        begun = self.clock()
        self.busy_since = begun
        try:
            scan = self.backend.discover()
        except BackendUnavailableError as error:
            self._say(error.state, error.detail, emit)
            return False
        finally:
            self.busy_since = None
        now = self.clock()
        self._say(BackendState.READY, "", emit)
        emit(Scanned(scan=scan, seconds=now - begun, at=now))
        return True

    def _rest(self, seconds: float, stop: threading.Event) -> None:
        # Whoever stops us sets the flag first and asks then: one of the two is seen.
        if not stop.is_set():
            self._asked.wait(seconds)

    def _say(self, state: BackendState, detail: str, emit: Emit) -> None:
        if self._said != (state, detail):
            self._said = (state, detail)
            emit(BackendChanged(state=state, detail=detail, at=self.clock()))

    def soon(self) -> None:
        """Scan again at once; also wakes a scan thread that is to stop. From any thread."""
        self._asked.set()

    def forget(self) -> None:
        """Say the state again at the next scan: somebody else said another meanwhile."""
        self._said = None
