"""Whether we may register now: the lock is ours, and a dead predecessor's end is past."""

import logging
import threading
import time
from collections.abc import Callable

from deviceplugin.events import Emit, LockChanged
from deviceplugin.kubelet import sockets
from deviceplugin.kubelet.lock import PluginLock, Taken, end_holder
from deviceplugin.kubelet.options import KubeletOptions

logger = logging.getLogger(__name__)


class Admission:
    """Takes the lock and keeps it, on a thread of its own; supervisors ask ``delay``."""

    def __init__(self, options: KubeletOptions, emit: Emit, admitted: Callable[[], None]) -> None:
        """``admitted`` is called, and must not block, when the lock was got."""
        self._options = options
        self._emit = emit
        self._admitted = admitted
        self._lock = PluginLock(options.plugin_dir, options.vendor)
        self._look_now = threading.Event()
        self.held = False
        self._last: Taken | None = None
        self._had_to_wait = False
        self._asked: int | None = None
        self._not_before = 0.0

    def delay(self) -> float | None:
        """Seconds until a registration may be made; None while the lock is not ours."""
        if not self._lock.is_intact():
            self.held = False
            self._look_now.set()
            return None
        return max(0.0, self._not_before - time.monotonic())

    def wake(self) -> None:
        """Look now, and at the stop flag."""
        self._look_now.set()

    def run(self, stop: threading.Event) -> None:
        """Take the lock and see that we keep it, until ``stop`` is set (and ``wake`` called)."""
        while not stop.is_set():
            self._look_now.clear()
            self._look_now.wait(self._look())

    def release(self) -> None:
        """Let a waiting process have it; only when nothing of ours serves any more."""
        self._lock.release()

    def _look(self) -> float:
        """Try; returns in how many seconds to look again."""
        if self._lock.is_intact() and self.held:
            return self._options.look_every
        taken = self._lock.take()
        if taken.held and not self.held:
            self._begin()
        self._report(taken)
        self.held = taken.held
        if taken.held:
            self._admitted()
        if taken.held or taken.problem:
            return self._options.look_every
        self._had_to_wait = True
        self._take_over(taken.holder_pid)
        return self._options.lock_poll

    def _begin(self) -> None:
        """Clear up after predecessors, and wait until the kubelet has noticed their end."""
        try:
            dead = sockets.remove_dead(self._options.plugin_dir, self._options.vendor)
        except OSError:
            dead = []  # the folder vanished again: there is nothing to clear up
        if dead:
            logger.info("removed dead sockets of ours", extra={"sockets": " ".join(dead)})
            self._not_before = self._options.started + self._options.stream_pause
        if self._had_to_wait:
            self._not_before = time.monotonic() + self._options.stream_pause
        self._had_to_wait = False

    def _take_over(self, holder: int | None) -> None:
        if not self._options.take_over or holder is None or holder == self._asked:
            return
        self._asked = holder
        if end_holder(holder, self._options.vendor):
            logger.info("asked the process that serves here to end", extra={"holder_pid": holder})
        else:
            logger.warning(
                "the process that serves here cannot be seen from here, waiting for it",
                extra={"holder_pid": holder},
            )

    def _report(self, taken: Taken) -> None:
        if taken == self._last:
            return
        self._last = taken
        detail = self._detail(taken)
        log = logger.info if taken.held else logger.warning
        log("lock", extra={"held": taken.held, "detail": detail})
        self._emit(
            LockChanged(
                held=taken.held,
                holder_pid=taken.holder_pid,
                detail=detail,
                blocked=bool(taken.problem),
                at=time.monotonic(),
            )
        )

    def _detail(self, taken: Taken) -> str:
        if taken.held or taken.problem:
            return taken.problem
        who = f"process {taken.holder_pid}" if taken.holder_pid else "another process"
        return f"{who} serves {self._options.vendor} here: waiting until it ends"
