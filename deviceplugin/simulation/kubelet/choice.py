"""Which devices a container gets: reuse first, then alignment, then the plugin's wish."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

Ask = Callable[[list[str], list[str], int], list[str]]
"""GetPreferredAllocation: available, must include, size → ids."""


@dataclass(slots=True, kw_only=True)
class Choice:
    """One choice under way.

    Attributes:
        size: how many ids in all.
        reusable: ids lent by finished init containers of the same pod.
        available: free healthy ids.
        aligned: those of them on the nodes of the hint; None without a hint.
        ask: None where the plugin does not offer preferred allocation.

    """

    size: int
    reusable: set[str]
    available: set[str]
    aligned: set[str] | None
    ask: Ask | None
    chance: random.Random
    taken: set[str] = field(default_factory=set)

    def make(self) -> set[str]:
        """Choose.

        Raises:
            AllocationError: the plugin answered a wish with an error.

        """
        self._take(self.reusable)
        if self._missing and self.aligned is not None and self._missing < len(self.aligned):
            self._take_preferred(self.aligned)
            self._take(self.aligned)
        elif self._missing:
            self._take(self.aligned or set())
            self._ask_for_the_rest()
        return self.taken

    def _ask_for_the_rest(self) -> None:
        if self._missing:
            self._take_preferred(self.available)
            self._take(self.available)

    @property
    def _missing(self) -> int:
        return self.size - len(self.taken)

    def _take(self, ids: set[str]) -> None:
        """Take what is missing; at random where there is more, as a Go map gives it."""
        offered = sorted(ids - self.taken)
        self.taken.update(self.chance.sample(offered, min(self._missing, len(offered))))

    def _take_preferred(self, among: set[str]) -> None:
        if self.ask is None or not self._missing:
            return
        available = self._shuffled(among | self.taken)
        wish = self.ask(available, self._shuffled(self.taken), self.size)
        self._take(among.intersection(wish))

    def _shuffled(self, ids: set[str]) -> list[str]:
        return self.chance.sample(sorted(ids), len(ids))
