"""A latency histogram as a frozen value, so that the loop can fold it like all else."""

from bisect import bisect_left
from dataclasses import dataclass

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds in seconds, inclusive: from a good Allocate to one that stops the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How often an answer took how long.

    Attributes:
        counts: answers for each bound, not cumulated; the last is above all bounds.
        total: seconds of all answers together.

    """

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    total: float = 0.0

    def observed(self, seconds: float) -> "Histogram":
        """Count one more answer. Pure."""
        place = bisect_left(BOUNDS, seconds)
        counts = (*self.counts[:place], self.counts[place] + 1, *self.counts[place + 1 :])
        return Histogram(counts=counts, total=self.total + seconds)
