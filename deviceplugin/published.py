"""Latest-value broadcast: one writer, any number of waiting readers.

The only lock of the project that two threads of ours share; it is held for an
assignment, never while anything waits for something else.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Published(Generic[T]):
    """The newest value of something, with a version that rises at each change."""

    def __init__(self, value: T) -> None:
        """Start at version 0 with ``value``."""
        self._value = value
        self._version = 0
        self._changed = threading.Condition()

    @property
    def value(self) -> T:
        """The newest value; never waits."""
        return self._value

    def set(self, value: T) -> bool:
        """Publish ``value``; an equal one changes nothing. Returns whether it differed."""
        with self._changed:
            if value == self._value:
                return False
            self._value = value
            self._version += 1
            self._changed.notify_all()
            return True

    def wait(self, seen: int, until: Callable[[], bool], timeout: float | None) -> tuple[int, T]:
        """Wait for a version above ``seen``, for ``until()`` to hold, or for the time limit.

        ``until`` is looked at when the reader is woken: whoever makes it true calls ``wake``.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._version > seen or until(), timeout)
            return self._version, self._value

    def wake(self) -> None:
        """Have all waiting readers look at their ``until`` again."""
        with self._changed:
            self._changed.notify_all()
