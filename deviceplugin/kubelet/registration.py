"""Keeps one resource registered: a thread that makes one serving generation after the other.

The order of operations is the one that is safe for kubelets 1.34 to 1.37: bind only once
the kubelet accepts, a new name for each try, one Register for each name, never two streams
at once, and a pause after a stream of ours ended under the same kubelet.
"""

import enum
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from deviceplugin.errors import DevicePluginError
from deviceplugin.events import Emit, RegistrationTried
from deviceplugin.kubelet.options import KubeletOptions
from deviceplugin.model import ResourceName, Views
from deviceplugin.published import Published
from deviceplugin.watch.kubelet_socket import KubeletSeen

if TYPE_CHECKING:
    from deviceplugin.kubelet.server import Generation
    from deviceplugin.kubelet.streams import SentList

logger = logging.getLogger(__name__)

_ANY_VERSION = sys.maxsize  # we wait for conditions, not for versions


class End(enum.Enum):
    """Why a generation ended."""

    STOPPED = enum.auto()
    FAILED = enum.auto()  # no socket, Register refused, or no stream afterwards
    STREAM_ENDED = enum.auto()  # under the same kubelet, as far as we know
    KUBELET_RESTARTED = enum.auto()  # and it broke the stream itself
    ENDED_BY_US = enum.auto()  # we end a stream that lives, or may have lived


class Gate(Protocol):
    """Allows registrations; rings the bell when it begins to."""

    held: bool
    """Whether it allowed them when it was last asked or looked; read without waiting."""

    def delay(self) -> float | None:
        """Seconds until a registration is allowed; None, and ``held`` False, while it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all registrations of a process share.

    Attributes:
        views: what is served.
        kubelet: what stands at kubelet.sock; also the bell that wakes us.
        suspect: has kubelet.sock looked at again.
        gate: says when a registration is allowed.

    """

    options: KubeletOptions
    views: Published[Views]
    kubelet: Published[KubeletSeen]
    emit: Emit
    suspect: Callable[[], None]
    gate: "Gate"


class Registration:
    """Supervises one resource; ``run`` is the body of its thread."""

    def __init__(self, resource: ResourceName, around: Surroundings) -> None:
        """Nothing starts here."""
        self.resource = resource
        self._around = around
        self._stop = threading.Event()
        self._renew = False
        self._generation: Generation | None = None
        self._backoff = _Backoff(around.options)
        self._last_error = ""

    def renew(self) -> None:
        """Have the present generation replaced; callable from any thread."""
        self._renew = True
        self._around.kubelet.wake()

    def sent(self) -> "SentList | None":
        """Look up the last list sent on a stream that is open now."""
        generation = self._generation
        if generation is None or not generation.streams.open:
            return None
        return generation.streams.sent

    def self_check(self) -> str:
        """Ask ourselves over our own socket; "" also while no socket of ours is there."""
        generation = self._generation
        if generation is None or not generation.is_intact():
            return ""
        problem = generation.self_check()
        # Stopped or wiped while we asked: not a failure.
        return problem if generation is self._generation and generation.is_intact() else ""

    def run(self, stop: threading.Event) -> None:
        """Serve and register until ``stop`` is set (and ``around.kubelet`` woken)."""
        self._stop = stop
        # Before the kubelet is there, so that nothing slow is left to do when it comes.
        from deviceplugin.kubelet import register, server  # noqa: F401, PLC0415

        while not self._stop.is_set():
            kubelet = self._await_kubelet()
            if kubelet is None:
                return
            end = self._guarded(kubelet)
            self._recover(end, kubelet)

    def _wait(self, until: Callable[[], bool], timeout: float | None) -> None:
        """Wait for ``until``, the stop flag, or the time limit. ``until`` takes no lock."""
        self._around.kubelet.wait(_ANY_VERSION, lambda: self._stop.is_set() or until(), timeout)

    def _await_kubelet(self) -> KubeletSeen | None:
        """Wait until the kubelet accepts and we may register; None when stopped."""
        kubelet, gate = self._around.kubelet, self._around.gate
        while not self._stop.is_set():
            seen, delay = kubelet.value, gate.delay()
            if seen.identity is None or delay is None:
                self._wait(lambda: kubelet.value.identity is not None and gate.held, None)
            elif delay:
                self._wait(lambda: False, delay)
            else:
                return seen
        return None

    @property
    def _look_every(self) -> float:
        return self._around.options.look_every

    def _guarded(self, kubelet: KubeletSeen) -> End:
        try:
            return self._serve(kubelet)
        except Exception:
            logger.exception("serving failed", extra={"resource": self.resource})
            return End.FAILED

    def _serve(self, kubelet: KubeletSeen) -> End:
        """Run one generation from its socket to its end."""
        from deviceplugin.kubelet.server import Generation  # noqa: PLC0415

        begun = time.monotonic()
        self._renew = False
        options = self._around.options
        try:
            generation = Generation(
                self.resource, options, self._around.views, self._around.emit, self._wake
            )
        except DevicePluginError as error:
            self._report("", str(error), begun)
            return End.FAILED
        try:
            return self._open_and_watch(generation, kubelet, begun)
        finally:
            self._generation = None
            self._close(generation)

    def _open_and_watch(self, generation: "Generation", kubelet: KubeletSeen, begun: float) -> End:
        try:
            generation.open()
        except DevicePluginError as error:
            self._report(generation.endpoint, str(error), begun)
            return End.FAILED
        self._generation = generation
        return self._register(generation, kubelet) or self._watch(generation, kubelet)

    def _wake(self) -> None:
        self._around.kubelet.wake()

    def _close(self, generation: "Generation") -> None:
        if not generation.stop(self._around.options.stop_grace):
            logger.warning(
                "calls were cut off when a socket was closed",
                extra={"resource": self.resource, "endpoint": generation.endpoint},
            )

    def _register(self, generation: "Generation", kubelet: KubeletSeen) -> End | None:
        """Register once and wait for the stream; None when all is well."""
        from deviceplugin.kubelet.register import RegisterCall  # noqa: PLC0415

        options = self._around.options
        begun = time.monotonic()
        with RegisterCall(options, generation.endpoint, self.resource, self._wake) as call:
            self._wait(lambda: call.done or self._is_other(kubelet), options.register_deadline + 1)
            error = call.error(self._cause_of_abort(kubelet))
        if self._stop.is_set():
            return End.STOPPED
        self._report(generation.endpoint, error, begun)
        return _failure(generation) if error else self._await_stream(generation, kubelet)

    def _cause_of_abort(self, kubelet: KubeletSeen) -> str:
        if self._is_other(kubelet):
            return "kubelet.sock was replaced meanwhile: registering there"
        return f"no answer within {self._around.options.register_deadline:g} s"

    def _await_stream(self, generation: "Generation", kubelet: KubeletSeen) -> End | None:
        expected = self._around.options.stream_expected
        self._wait(lambda: generation.streams.opened > 0 or self._is_other(kubelet), expected)
        if generation.streams.opened:
            self._backoff.reset()
            return None
        if not self._stop.is_set():
            logger.warning(
                "the kubelet accepted the registration and opened no stream",
                extra={"resource": self.resource, "seconds": expected},
            )
        return End.FAILED

    def _watch(self, generation: "Generation", kubelet: KubeletSeen) -> End:
        """Wait for whatever ends this generation."""
        intact = True
        while True:
            end = self._end(generation, kubelet)
            if end is not None:
                return end
            if intact and not generation.is_intact():
                intact = False
                self._note_lost_file(generation)
            self._wait(
                lambda: self._end(generation, kubelet, settled=True) is not None, self._look_every
            )

    def _end(
        self, generation: "Generation", kubelet: KubeletSeen, *, settled: bool = False
    ) -> End | None:
        """Say why this generation is over; None while it is not."""
        if self._stop.is_set():
            return End.STOPPED
        if self._is_other(kubelet):
            return End.KUBELET_RESTARTED if settled else self._settle(generation)
        if not generation.streams.open:
            return End.STREAM_ENDED
        return End.ENDED_BY_US if self._renew else None

    def _settle(self, generation: "Generation") -> End:
        """Tell a restarted kubelet, which breaks the stream, from a touched kubelet.sock."""
        self._wait(lambda: not generation.streams.open, self._around.options.settle)
        return End.ENDED_BY_US if generation.streams.open else End.KUBELET_RESTARTED

    def _note_lost_file(self, generation: "Generation") -> None:
        # The kubelet holds its connection; a new registration would only risk it.
        logger.info(
            "own socket file is gone, the kubelet still holds the stream",
            extra={"resource": self.resource, "endpoint": generation.endpoint},
        )

    def _is_other(self, kubelet: KubeletSeen) -> bool:
        """Whether another kubelet.sock accepts now."""
        seen = self._around.kubelet.value.identity
        return seen is not None and seen != kubelet.identity

    def _recover(self, end: End, kubelet: KubeletSeen) -> None:
        """Wait as long as this end asks for; a new kubelet cancels a backoff at once."""
        options = self._around.options
        match end:
            case End.STOPPED | End.KUBELET_RESTARTED:
                return
            case End.ENDED_BY_US:
                self._wait(lambda: False, options.stream_pause)
            case End.STREAM_ENDED:
                logger.info("stream ended", extra={"resource": self.resource})
                self._around.suspect()
                self._wait(lambda: self._is_other(kubelet), options.stream_pause)
            case End.FAILED:
                self._around.suspect()
                self._wait(lambda: self._is_other(kubelet), self._backoff.next())

    def _report(self, endpoint: str, error: str, begun: float) -> None:
        now = time.monotonic()
        event = RegistrationTried(
            resource=self.resource, endpoint=endpoint, error=error, seconds=now - begun, at=now
        )
        fields = {"resource": self.resource, "endpoint": endpoint}
        if not error:
            logger.info("registered", extra=fields)
        elif error != self._last_error:
            logger.warning("registration failed", extra={**fields, "error": error})
        self._last_error = error
        self._around.emit(event)


def _failure(generation: "Generation") -> End:
    # A Register that failed for us may have connected all the same (1.34).
    return End.ENDED_BY_US if generation.streams.opened else End.FAILED


class _Backoff:
    """Doubles from the first pause to the limit, until reset."""

    def __init__(self, options: KubeletOptions) -> None:
        self._options = options
        self.reset()

    def reset(self) -> None:
        self._next = self._options.backoff_first

    def next(self) -> float:
        pause = self._next
        self._next = min(2 * pause, self._options.backoff_limit)
        return pause
