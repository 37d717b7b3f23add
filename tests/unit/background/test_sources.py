"""Background work that raises, ends and stops."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from deviceplugin import sources
from deviceplugin.events import Emit, Event, SourceFailed
from deviceplugin.sources import Backoff

QUICK = Backoff(first=0.001, limit=0.004)
Work = Callable[[threading.Event], None]


@dataclass
class Script:
    """A source that does one thing after the other, then waits to be stopped."""

    works: list[Work]
    name: str = "test-source"
    runs: int = 0
    waiting: threading.Event = field(default_factory=threading.Event)

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Do the next thing."""
        del emit
        self.runs += 1
        if self.works:
            self.works.pop(0)(stop)
            return
        self.waiting.set()
        stop.wait()


def fail(_stop: threading.Event) -> None:
    """Raise."""
    raise OSError("the device is gone")


def end(_stop: threading.Event) -> None:
    """Return early."""


@pytest.mark.parametrize(
    ("work", "error"),
    [
        pytest.param(fail, "OSError: the device is gone", id="raises"),
        pytest.param(end, "ended although nobody stopped it", id="ends"),
    ],
)
def test_runs_again(work: Work, error: str) -> None:
    """A source that raised or ended is reported and runs again."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()
    script = Script([work])
    thread = sources.start(script, events.put, stop, QUICK)
    assert script.waiting.wait(5)
    stop.set()
    assert sources.join([thread], 5) == ()
    failed = events.get_nowait()
    assert isinstance(failed, SourceFailed)
    assert (failed.source, failed.error, failed.retry_in) == ("test-source", error, 0.001)
    assert events.empty()
    assert script.runs == 2


def test_pauses_grow() -> None:
    """Each failure in a row doubles the pause, up to the limit."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()
    script = Script([fail] * 4)
    thread = sources.start(script, events.put, stop, Backoff(first=0.001, limit=0.5))
    assert script.waiting.wait(5)
    stop.set()
    thread.join(5)
    pauses = [events.get_nowait().retry_in for _ in range(4)]
    assert pauses == [0.001, 0.002, 0.004, 0.008]


@pytest.mark.parametrize(
    ("failures", "delay"), [(1, 1.0), (2, 2.0), (5, 16.0), (6, 30.0), (10_000, 30.0)]
)
def test_backoff(failures: int, delay: float) -> None:
    """One second doubles to thirty and stays there, after any number of failures."""
    assert Backoff().delay(failures) == delay


def test_long_run_forgives() -> None:
    """A run that lasted as long as the longest pause starts the pauses over."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()

    def last(stop: threading.Event) -> None:
        stop.wait(0.01)
        raise OSError("late")

    script = Script([fail, fail, last])
    thread = sources.start(script, events.put, stop, QUICK)
    assert script.waiting.wait(5)
    stop.set()
    thread.join(5)
    assert [events.get_nowait().retry_in for _ in range(3)] == [0.001, 0.002, 0.001]


def test_stop_ends_a_pause() -> None:
    """A stop does not wait for the pause to pass, and a stopped source is no failure."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    stop = threading.Event()
    thread = sources.start(Script([fail]), events.put, stop, Backoff(first=3600.0, limit=3600.0))
    assert isinstance(events.get(timeout=5), SourceFailed)
    stop.set()
    assert sources.join([thread], 5) == ()
    assert events.empty()


def test_thread_bears_the_name() -> None:
    """The thread is found under its source's name and does not keep the process alive."""
    stop = threading.Event()
    thread = sources.start(Script([]), lambda _event: None, stop)
    assert (thread.name, thread.daemon) == ("test-source", True)
    stop.set()
    thread.join(5)


def test_join_names_who_hangs() -> None:
    """A source that does not come back is named, and the wait has an end."""
    stop, let_go = threading.Event(), threading.Event()
    thread = sources.start(Script([lambda _stop: let_go.wait() and None]), lambda _e: None, stop)
    stop.set()
    assert sources.join([thread], 0.01) == ("test-source",)
    let_go.set()
    assert sources.join([thread], 5) == ()
