"""Counts of a kubelet, looked at again and again while a scenario goes on."""

import threading
from types import TracebackType
from typing import Self

from tests.kubelet.node import GPU, Counts, Kubelet

_EVERY = 0.002


class Watch:
    """All counts that were seen while it was open, one after the other.

    Attributes:
        seen: without repetitions, oldest first.

    """

    def __init__(self, kubelet: Kubelet, resource: str = GPU) -> None:
        self.seen: list[Counts] = []
        self._kubelet = kubelet
        self._resource = resource
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="watch")

    def __enter__(self) -> Self:
        """Begin to look; the counts of now are seen."""
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Look once more, then no more."""
        self._done.set()
        self._thread.join()
        self._look()

    def least(self) -> Counts:
        """Return the lowest of each count."""
        return Counts(
            allocatable=min(each.allocatable or 0 for each in self.seen),
            capacity=min(each.capacity or 0 for each in self.seen),
        )

    def _go_on(self) -> None:
        while not self._done.wait(_EVERY):
            self._look()

    def _look(self) -> None:
        counts = self._kubelet.counts(self._resource)
        if self.seen[-1:] != [counts]:
            self.seen.append(counts)
