"""What happened in the kubelet, in order: its one lock, its history, and those who wait."""

import enum
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_LOOK_AGAIN = 0.05  # conditions over a clock come true without any change here


class ChangeKind(enum.StrEnum):
    """What a change is about."""

    STARTED = "started"
    STOPPED = "stopped"
    CRASHED = "crashed"
    REGISTERED = "registered"
    REFUSED = "refused"
    LIST = "list"
    STREAM_ENDED = "stream-ended"
    DROPPED = "dropped"
    ADMITTED = "admitted"
    REJECTED = "rejected"
    REMOVED = "removed"
    POD_STATUS = "pod-status"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that happened.

    Attributes:
        at: seconds of CLOCK_MONOTONIC.
        pod: the pod's name where it is about one.
        detail: one line for people: an endpoint, an error, a reason.
        healthy, ids: the resource's healthy and all ids right after it
            (LIST and STREAM_ENDED only).

    """

    kind: ChangeKind
    at: float = field(default_factory=time.monotonic)
    resource: str = ""
    pod: str = ""
    detail: str = ""
    healthy: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()


class Journal:
    """The lock over the kubelet's state, and everything that changed under it."""

    def __init__(self, on_change: Callable[[Change], None] | None, *, keep: int) -> None:
        """Keep the last ``keep`` changes; tell each to ``on_change``, in order."""
        self.changes: deque[Change] = deque(maxlen=keep)
        self._on_change = on_change
        self._untold: deque[Change] = deque()
        self._telling = threading.RLock()
        self._changed = threading.Condition(threading.RLock())
        self._version = 0

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock for a change; then wake who waits, and tell, without the lock."""
        try:
            with self._changed:
                self._version += 1
                try:
                    yield
                finally:
                    self._changed.notify_all()
        finally:
            self._tell()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock to read several things that belong together."""
        with self._changed:
            yield

    def note(self, change: Change) -> None:
        """Append to the history; call it inside ``changing``."""
        self.changes.append(change)
        if self._on_change is not None:
            self._untold.append(change)

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until the condition holds; False when it still does not after ``timeout`` s.

        The condition runs without the lock: it may call anything.
        """
        deadline = time.monotonic() + timeout
        while True:
            seen = self._version
            if condition():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            with self._changed:
                self._changed.wait_for(lambda: self._version != seen, min(left, _LOOK_AGAIN))  # noqa: B023 - called before the next round

    def _tell(self) -> None:
        if self._on_change is None:
            return
        with self._telling:
            while self._untold:
                self._on_change(self._untold.popleft())
