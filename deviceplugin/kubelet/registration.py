"""Keeps one resource registered: a thread that makes one serving generation after the other.

The order of operations is the one that is safe for kubelets 1.34 to 1.37: bind only once
the kubelet accepts, a new name for each try, one Register for each name, never two streams
at once, and a pause after a stream of ours ended under the same kubelet.

gRPC comes in with ``lifetime``, which the thread imports.
"""

import logging
import threading
import time
from typing import TYPE_CHECKING

from deviceplugin.errors import DevicePluginError
from deviceplugin.kubelet.surroundings import Surroundings
from deviceplugin.model import ResourceName
from deviceplugin.sources import Backoff
from deviceplugin.watch.kubelet_socket import KubeletSeen

if TYPE_CHECKING:
    from deviceplugin.kubelet.lifetime import End, Lifetime
    from deviceplugin.kubelet.streams import SentList

logger = logging.getLogger(__name__)


class Registration:
    """Supervises one resource; ``run`` is the body of its thread."""

    def __init__(self, resource: ResourceName, around: Surroundings) -> None:
        """Nothing starts here."""
        self.resource = resource
        self._around = around
        self._life: Lifetime | None = None
        self._backoff = Backoff(
            first=around.options.backoff_first, limit=around.options.backoff_limit
        )
        self._failures = 0
        self._last_error = ""

    def renew(self) -> None:
        """Have the present generation replaced; callable from any thread."""
        life = self._life
        if life is not None:
            life.renew()

    def sent(self) -> "SentList | None":
        """Look up the last list sent on a stream that is open now."""
        life = self._life
        if life is None or not life.generation.streams.live:
            return None
        return life.generation.streams.sent

    def self_check(self) -> str:
        """Ask ourselves over our own socket; "" also while no socket of ours is there."""
        life = self._life
        if life is None or not life.generation.is_intact():
            return ""
        problem = life.generation.self_check()
        # Stopped or wiped while we asked: not a failure.
        return problem if life is self._life and life.generation.is_intact() else ""

    def run(self, stop: threading.Event) -> None:
        """Serve and register until ``stop``, the one of our surroundings, is set."""
        # Before the kubelet is there, so that nothing slow is left to do when it comes.
        from deviceplugin.kubelet import lifetime  # noqa: F401, PLC0415

        while not stop.is_set():
            kubelet = self._await_kubelet()
            if kubelet is not None:
                self._recover(self._guarded(kubelet), kubelet)

    def _await_kubelet(self) -> KubeletSeen | None:
        """Wait until the kubelet accepts and we may register; None when stopped."""
        around, kubelet, gate = self._around, self._around.kubelet, self._around.gate
        while not around.stop.is_set():
            seen, delay = kubelet.value, gate.delay()
            if seen.identity is None or delay is None:
                around.wait(lambda: kubelet.value.identity is not None and gate.held, None)
            elif delay:
                around.wait(lambda: False, delay)
            else:
                return seen
        return None

    def _guarded(self, kubelet: KubeletSeen) -> "End":
        from deviceplugin.kubelet.lifetime import End  # noqa: PLC0415

        try:
            return self._serve(kubelet)
        except Exception:
            logger.exception("serving failed", extra={"resource": self.resource})
            return End.FAILED

    def _serve(self, kubelet: KubeletSeen) -> "End":
        """Run one generation from its socket to its end."""
        from deviceplugin.kubelet.lifetime import End, Lifetime, report  # noqa: PLC0415

        began = time.monotonic()
        try:
            life = self._life = Lifetime(self.resource, self._around, kubelet)
        except DevicePluginError as error:
            report(self._around, self.resource, "", str(error), began)
            self._note(str(error))
            return End.FAILED
        try:
            end, problem = life.run()
        finally:
            self._life = None
        self._note(problem)
        if life.streamed:
            self._failures = 0
        return end

    def _note(self, error: str) -> None:
        """Log an error when it begins or changes, not at each try."""
        if error and error != self._last_error:
            logger.warning("registration failed", extra={"resource": self.resource, "error": error})
        self._last_error = error

    def _recover(self, end: "End", kubelet: KubeletSeen) -> None:
        """Wait as long as this end asks for; a new kubelet cancels a backoff at once."""
        from deviceplugin.kubelet.lifetime import End  # noqa: PLC0415

        around = self._around
        match end:
            case End.STOPPED | End.KUBELET_RESTARTED:
                return
            case End.ENDED_BY_US:
                around.wait(lambda: False, around.options.stream_pause)
            case End.STREAM_ENDED:
                logger.info("stream ended", extra={"resource": self.resource})
                around.suspect()
                around.wait(lambda: around.is_other(kubelet), around.options.stream_pause)
            case End.FAILED:
                self._failures += 1
                around.suspect()
                pause = self._backoff.delay(self._failures)
                around.wait(lambda: around.is_other(kubelet), pause)
