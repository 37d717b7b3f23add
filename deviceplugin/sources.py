"""Runs a source on a thread of its own: guarded, restarted after a pause, stopped by a flag."""

import logging
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from deviceplugin.backend import Source
from deviceplugin.events import Emit, SourceFailed

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long to wait before another try, in seconds.

    Attributes:
        first: after the first failure; each further one doubles it.
        limit: never longer; a run that lasted this long counts as good again.

    """

    first: float = 1.0
    limit: float = 30.0

    def delay(self, failures: int) -> float:
        """Pause after ``failures`` failures in a row (at least one)."""
        return min(self.limit, self.first * 2.0 ** min(failures - 1, 32))


def start(
    source: Source, emit: Emit, stop: threading.Event, backoff: Backoff | None = None
) -> threading.Thread:
    """Run ``source`` until ``stop`` is set, again and again; returns its running thread.

    A source that raises, or that returns before it was told to, becomes a
    ``SourceFailed`` event and runs again after a pause.
    """
    thread = threading.Thread(
        target=_keep_running,
        args=(source, emit, stop, backoff or Backoff()),
        name=source.name,
        daemon=True,
    )
    thread.start()
    return thread


def join(threads: Iterable[threading.Thread], timeout: float) -> tuple[str, ...]:
    """Wait for all threads, ``timeout`` seconds together; names those that still run.

    A thread inside a hanging driver call cannot be ended; it is a daemon thread, so
    the process may end without it.
    """
    deadline = time.monotonic() + timeout
    waited = list(threads)
    for thread in waited:
        thread.join(max(0.0, deadline - time.monotonic()))
    return tuple(thread.name for thread in waited if thread.is_alive())


def _keep_running(source: Source, emit: Emit, stop: threading.Event, backoff: Backoff) -> None:
    failures = 0
    while not stop.is_set():
        began = time.monotonic()
        error = _run_once(source, emit, stop)
        if stop.is_set():
            return
        failures = 1 if time.monotonic() - began >= backoff.limit else failures + 1
        _report(source.name, error, backoff.delay(failures), emit)
        stop.wait(backoff.delay(failures))


def _run_once(source: Source, emit: Emit, stop: threading.Event) -> str:
    try:
        source.run(emit, stop)
    except Exception as error:
        # The edge of a thread: whatever a vendor's code raises must not end it for good.
        logger.exception("background source failed", extra={"source": source.name})
        return f"{type(error).__name__}: {error}"
    return "ended although nobody stopped it"


def _report(name: str, error: str, retry_in: float, emit: Emit) -> None:
    logger.warning(
        "background source starts again", extra={"source": name, "error": error, "in_s": retry_in}
    )
    emit(SourceFailed(source=name, error=error, retry_in=retry_in, at=time.monotonic()))
