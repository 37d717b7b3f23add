"""The poller of PodResources: how often, and when at once."""

import logging
import threading
from collections.abc import Callable
from random import SystemRandom

from deviceplugin.events import Emit, HoldersAnswered, HoldersUnavailable
from deviceplugin.kubelet.options import KubeletOptions

logger = logging.getLogger(__name__)

_SPREAD = 0.2
_random = SystemRandom()

Ask = Callable[[float], HoldersAnswered | HoldersUnavailable]


class HoldersPoller:
    """Asks every ten seconds, every second while draining, at once on request, or not at all."""

    def __init__(
        self,
        options: KubeletOptions,
        ask: Ask,
        emit: Emit,
        answered: Callable[[HoldersAnswered], None],
    ) -> None:
        """``ask`` is given seconds; ``answered`` sees each answer after it was emitted."""
        self._options = options
        self._ask = ask
        self._emit = emit
        self._answered = answered
        self._now = threading.Event()
        self._active = False
        self._draining = False
        self._last_problem = ""

    def watch(self, *, active: bool) -> None:
        """Say whether there is anything that a pod could hold; otherwise nobody is asked."""
        if active != self._active:
            self._active = active
            self._now.set()

    def pace(self, *, draining: bool) -> None:
        """Say whether units wait to be given back."""
        if draining != self._draining:
            self._draining = draining
            self._now.set()

    def ask_now(self) -> None:
        """Ask at once, if there is anything to ask about. Never blocks."""
        self._now.set()

    def run(self, stop: threading.Event) -> None:
        """Poll until ``stop`` is set (and ``ask_now`` called)."""
        while not stop.is_set():
            # Cleared before the question: what is wished meanwhile is another question.
            self._now.clear()
            if self._active:
                self._poll()
            self._now.wait(self._interval())

    def _interval(self) -> float | None:
        if not self._active:
            return None
        if self._draining:
            return self._options.holders_poll_draining
        return self._options.holders_poll * _random.uniform(1 - _SPREAD, 1 + _SPREAD)

    def _poll(self) -> None:
        answer = self._ask(self._options.holders_deadline)
        self._note(answer)
        self._emit(answer)
        if isinstance(answer, HoldersAnswered):
            self._answered(answer)

    def _note(self, answer: HoldersAnswered | HoldersUnavailable) -> None:
        problem = answer.why if isinstance(answer, HoldersUnavailable) else ""
        if problem and not self._last_problem:
            logger.warning(
                "PodResources does not answer, no unit is dropped until it does",
                extra={"error": problem},
            )
        elif self._last_problem and not problem:
            logger.info("PodResources answers again")
        self._last_problem = problem
