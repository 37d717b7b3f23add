"""Writes the state file on a thread of its own: a slow disk must not stop the loop."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deviceplugin import state
from deviceplugin.events import Emit, StateKept
from deviceplugin.published import Published

RETRY = 30.0
"""Seconds until a failed write is tried again without a change: the disk may be free by then."""


@dataclass(slots=True, kw_only=True)
class StateWriter:
    """A ``Source`` that keeps the newest state on disk, and says when it cannot."""

    path: Path
    wanted: Published[state.State | None]
    clock: Callable[[], float] = time.monotonic
    name: str = "state-writer"

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Write each new state until ``stop`` is set, the last one included."""
        seen, problem, ending = 0, "", False
        while not ending:
            version, value = self.wanted.wait(seen, stop.is_set, RETRY if problem else None)
            # Read before the write: what is published between the two is written next time.
            ending = stop.is_set() and self.wanted.value is value
            if value is not None and (version > seen or problem):
                said, problem = problem, state.save(self.path, value)
                if problem != said:
                    emit(StateKept(problem=problem, at=self.clock()))
            seen = version
