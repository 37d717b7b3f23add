"""The ListAndWatch streams of one generation: a bounded set, and the last list sent."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from deviceplugin.model import Unit

OnChange = Callable[[int], None]
"""Told how many streams are open now, 0 when the kubelet's own is not among them; in the
order of the changes; must not block."""

KUBELETS = 1
"""Ticket of the kubelet's stream: it dials back within Register, and nobody else can know a
socket that is some milliseconds old. It opens one stream and never another."""


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
        self._open: frozenset[int] = frozenset()
        self.opened = 0
        self.stopping = False
        self.sent: SentList | None = None

    @property
    def live(self) -> bool:
        """Whether the kubelet's own stream is open; others (a tool's) do not count."""
        return KUBELETS in self._open

    def enter(self) -> int:
        """Take a slot; returns its ticket, 0 when there is none."""
        with self._lock:
            if len(self._open) >= self._slots:
                return 0
            self.opened += 1
            self._open = self._open | {self.opened}
            self._report()
            return self.opened

    def leave(self, ticket: int) -> None:
        """Give the slot back."""
        with self._lock:
            self._open = self._open - {ticket}
            self._report()

    def _report(self) -> None:
        self._on_change(len(self._open) if self.live else 0)

    def note_sent(self, units: tuple[Unit, ...]) -> float:
        """Remember what the kubelet knows now; returns the time."""
        at = time.monotonic()
        self.sent = SentList(units=units, at=at)
        return at
