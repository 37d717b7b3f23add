"""The ListAndWatch streams of one generation: a bounded set, and the last list sent."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from deviceplugin.model import Unit

OnChange = Callable[[int], None]
"""Told how many streams are open now, in the order of the changes; must not block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentList:
    """The last list that went out, and when."""

    units: tuple[Unit, ...]
    at: float


class Streams:
    """Counts open streams, refuses those over ``slots``, and says when all must end.

    Stop is a flag: a stream looks at it when it is woken.
    """

    def __init__(self, slots: int, on_change: OnChange) -> None:
        self._slots = slots
        self._on_change = on_change
        # Held for a count and a non-blocking report, so that reports keep their order.
        self._lock = threading.Lock()
        self.open = 0
        self.opened = 0
        self.stopping = False
        self.sent: SentList | None = None

    def enter(self) -> bool:
        """Take a slot; False when there is none."""
        with self._lock:
            if self.open >= self._slots:
                return False
            self.open += 1
            self.opened += 1
            self._on_change(self.open)
            return True

    def leave(self) -> None:
        """Give the slot back."""
        with self._lock:
            self.open -= 1
            self._on_change(self.open)

    def note_sent(self, units: tuple[Unit, ...]) -> float:
        """Remember what the kubelet knows now; returns the time."""
        at = time.monotonic()
        self.sent = SentList(units=units, at=at)
        return at
