"""The ListAndWatch streams of one generation: a bounded set, and the last list sent."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from deviceplugin.model import Unit

OnChange = Callable[[int], None]
"""Told how many streams are open now, 0 when the kubelet's own is not among them; in the
order of the changes; must not block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentList:
    """The last list that went out to the kubelet, and when."""

    units: tuple[Unit, ...]
    at: float


class Streams:
    """Counts open streams, refuses those over ``slots``, and says when all must end.

    Nothing on a stream tells who opened it. The kubelet's is taken to be the first since
    Register: it dials back at once, opens one, and never another on the same socket.
    Stop is a flag: a stream looks at it when it is woken.
    """

    def __init__(self, slots: int, on_change: OnChange) -> None:
        self._slots = slots
        self._on_change = on_change
        # Held for a count and a non-blocking report, so that reports keep their order.
        self._lock = threading.Lock()
        self._open: frozenset[int] = frozenset()
        self._opened = 0
        self._expected = False
        self._kubelets = 0  # its ticket; 0 before it comes
        self.stopping = False
        self.sent: SentList | None = None

    def expect(self) -> None:
        """Take the next stream for the kubelet's; to be called before Register."""
        with self._lock:
            self._expected = True

    @property
    def came(self) -> bool:
        """Whether the kubelet ever opened its stream."""
        return self._kubelets > 0

    @property
    def live(self) -> bool:
        """Whether the kubelet's own stream is open; others (a tool's) do not count."""
        return self._kubelets in self._open

    def is_kubelets(self, ticket: int) -> bool:
        """Whether this is the ticket of the kubelet's stream."""
        return ticket == self._kubelets

    def enter(self) -> int:
        """Take a slot; returns its ticket, 0 when there is none."""
        with self._lock:
            awaited = self._expected and not self.came
            # The kubelet never tries again, so others cannot take its place.
            if len(self._open) >= self._slots and not awaited:
                return 0
            ticket = self._opened = self._opened + 1
            self._open = self._open | {ticket}
            if awaited:
                # Last: who reads without the lock must not find it come and not live.
                self._kubelets = ticket
            self._report()
            return ticket

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
