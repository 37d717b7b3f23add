"""Calls to the driver that are under way, so that one that hangs can be named with its time."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from deviceplugin.vendors.nvidia.door import EventSet, GpuEvent, GpuInfo, Nvml


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds after which a call counts as hanging.

    Attributes:
        call: any call to a GPU that is attached already.
        attach: calls that may bring GPUs up first: without persistence mode that takes
            a few seconds for each.

    """

    call: float = 5.0
    attach: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """A call that has not come back in time."""

    call: str
    since: float
    limit: float

    def __str__(self) -> str:
        return f"{self.call} has not come back for over {self.limit:g} s"


class Calls:
    """Who is inside the driver now. One entry for each thread; each writes only its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._under_way: dict[int, Hang] = {}

    @contextmanager
    def during(self, call: str, limit: float) -> Iterator[None]:
        """Note that this thread is inside ``call``."""
        thread = threading.get_ident()
        self._under_way[thread] = Hang(call=call, since=self._clock(), limit=limit)
        try:
            yield
        finally:
            del self._under_way[thread]

    def hanging(self) -> Hang | None:
        """Return the call that hangs longest, if any does."""
        now = self._clock()
        late = [hang for hang in tuple(self._under_way.values()) if now - hang.since > hang.limit]
        return min(late, key=lambda hang: hang.since, default=None)


class TimedNvml:
    """A door that notes each call while it is under way; see ``door.Nvml``."""

    def __init__(self, door: Nvml, calls: Calls, limits: Limits) -> None:
        self._door = door
        self._calls = calls
        self._limits = limits

    def open(self) -> None:
        """Open the door."""
        with self._calls.during("NVML initialisation", self._limits.attach):
            self._door.open()

    def close(self) -> None:
        """Close the door."""
        with self._calls.during("NVML shutdown", self._limits.attach):
            self._door.close()

    def library(self) -> str:
        """Return the file that was loaded."""
        return self._door.library()

    def driver_version(self) -> str:
        """Return the driver's version."""
        with self._calls.during("asking for the driver's version", self._limits.call):
            return self._door.driver_version()

    def count(self) -> int:
        """Return the number of GPUs."""
        with self._calls.during("counting the GPUs", self._limits.call):
            return self._door.count()

    def gpu(self, index: int) -> GpuInfo:
        """Return one GPU."""
        with self._calls.during(f"asking what GPU {index} is", self._limits.attach):
            return self._door.gpu(index)

    def check(self, uuid: str) -> None:
        """Ask a GPU something."""
        with self._calls.during(f"asking whether {uuid} works", self._limits.call):
            self._door.check(uuid)

    def recovery_action(self, uuid: str) -> int | None:
        """Return the recovery action."""
        with self._calls.during(f"asking {uuid} for its recovery action", self._limits.call):
            return self._door.recovery_action(uuid)

    def nvlinks(self, uuid: str) -> Mapping[str, int]:
        """Return the NVLinks of a GPU."""
        with self._calls.during(f"asking {uuid} for its NVLinks", self._limits.call):
            return self._door.nvlinks(uuid)

    def events(self, uuids: Sequence[str]) -> EventSet:
        """Return a new event set, timed as well."""
        with self._calls.during("creating an event set", self._limits.call):
            return TimedEventSet(self._door.events(uuids), self._calls, self._limits)


class TimedEventSet:
    """An event set that notes its calls; see ``door.EventSet``."""

    def __init__(self, events: EventSet, calls: Calls, limits: Limits) -> None:
        self._events = events
        self._calls = calls
        self._limits = limits

    def register(self, uuid: str) -> None:
        """Watch one GPU."""
        with self._calls.during(f"registering {uuid} for events", self._limits.call):
            self._events.register(uuid)

    def wait(self, milliseconds: int) -> GpuEvent | None:
        """Return the next event; hanging only when it is later than it was asked to be."""
        with self._calls.during("waiting for events", milliseconds / 1000 + self._limits.call):
            return self._events.wait(milliseconds)

    def close(self) -> None:
        """Free the set."""
        with self._calls.during("freeing an event set", self._limits.call):
            self._events.close()
