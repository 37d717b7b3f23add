"""Which whole devices or partitions to take together: the nearest set that breaks the least. Pure.

The sets that a request may get are compared by four numbers, in this order (the reasons are in
docs/decisions/preferred-allocation.md):

1. GPUs newly broken: all of a GPU's partitions were free, and only some are taken;
2. the sum of the link weights over all pairs, the ones that must be included among them;
3. partitions left free on the GPUs that are touched;
4. devices left free on the NUMA nodes that are touched.

Among equals one with low indexes is preferred.

Units that nothing tells apart form a class, so a set is a number of units for each class.
Branch and bound goes through these numbers, with a count of steps as its limit instead of a
clock: the same question has the same answer, however busy the node is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from deviceplugin.allocation.classes import Class, classes
from deviceplugin.allocation.groups import Groups
from deviceplugin.allocation.question import Question

MOST = 128
"""Candidates that are looked at as pairs; beyond, nobody has measured links anyway."""

STEPS = 2_500
"""Steps of a search at most: about ten milliseconds with sixteen unlike GPUs."""

Keys = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Places in ``Question.free``, ascending; ``proven`` when no other set is better."""

    places: tuple[int, ...]
    proven: bool
    keys: Keys


def choose(question: Question, steps: int = STEPS) -> Choice:
    """Choose the best set, or the best that is found within so many steps."""
    kinds = classes(question)
    search = _Search(question=question, kinds=kinds, steps=steps)
    search.run()
    places = _places(kinds, search.best)
    return Choice(places=tuple(places), proven=search.steps >= 0, keys=search.best_keys)


def _places(kinds: Sequence["Class"], counts: Sequence[int]) -> list[int]:
    return sorted(
        place for kind, count in zip(kinds, counts, strict=True) for place in kind.places[:count]
    )


@dataclass(slots=True, kw_only=True)
class _Search:
    """Branch and bound over the number of units of each class.

    ``steps`` counts down; below zero the search was given up.
    """

    question: Question
    kinds: list[Class]
    steps: int
    best: list[int] = field(default_factory=list)
    best_keys: Keys = (0, 0, 0, 0)
    _counts: list[int] = field(default_factory=list)
    _base: list[int] = field(default_factory=list)
    _after: list[int] = field(default_factory=list)
    _gpus: "Groups" = field(init=False)
    _nodes: "Groups" = field(init=False)
    _fixed: int = 0

    def run(self) -> None:
        """Find the best set."""
        question = self.question
        self._gpus = Groups.of(question, self.kinds, by_gpu=True)
        self._nodes = Groups.of(question, self.kinds, by_gpu=False)
        self._fixed = sum(
            question.weight(one.device, other.device)
            for place, one in enumerate(question.fixed)
            for other in question.fixed[:place]
        )
        places = range(len(self.kinds) + 1)
        self._after = [sum(kind.size for kind in self.kinds[place:]) for place in places]
        self._begin()
        self._counts = [0] * len(self.kinds)
        self._base = [kind.fixed for kind in self.kinds]
        self._descend(0, question.count, self._fixed)

    def _begin(self) -> None:
        """Start with the best of some quick sets, each made better by moving units."""
        starts = sorted((self._keys(start), start) for start in self._starts())
        improved = [self._improved(start, keys) for keys, start in starts[:_IMPROVED]]
        self.best, self.best_keys = min(
            improved, key=lambda found: (found[1], _places(self.kinds, found[0]))
        )

    def _starts(self) -> Iterator[list[int]]:
        yield self._filled(sorted(range(len(self.kinds)), key=self._first_place))
        started_first = sorted(range(len(self.kinds)), key=lambda place: self.kinds[place].size)
        yield self._filled(started_first)
        for seed in range(min(len(self.kinds), _SEEDS)):
            yield self._grown(seed)

    def _first_place(self, number: int) -> int:
        return self.kinds[number].places[0]

    def _filled(self, order: Sequence[int]) -> list[int]:
        counts, left = [0] * len(self.kinds), self.question.count
        for place in order:
            counts[place] = min(left, self.kinds[place].size)
            left -= counts[place]
        return counts

    def _grown(self, seed: int) -> list[int]:
        """From one class on, take whatever is nearest to what is taken."""
        counts, left = [0] * len(self.kinds), self.question.count
        base = [kind.fixed for kind in self.kinds]
        place = seed
        while left:
            kind = self.kinds[place]
            counts[place] += 1
            left -= 1
            for other in range(len(self.kinds)):
                base[other] += kind.inside if other == place else kind.to[other]
            open_ones = [i for i, each in enumerate(self.kinds) if counts[i] < each.size]
            if left and open_ones:
                place = min(open_ones, key=lambda i: (base[i], i))
        return counts

    def _improved(self, counts: list[int], keys: Keys) -> tuple[list[int], Keys]:
        for _ in range(_ROUNDS):
            better = self._moved(counts, keys)
            if better is None:
                break
            counts, keys = better
        return counts, keys

    def _moved(self, counts: list[int], keys: Keys) -> tuple[list[int], Keys] | None:
        best = None
        costs = [self._cost(place, counts) for place in range(len(counts))]
        for source, count in enumerate(counts):
            for target in range(len(counts)) if count else ():
                room = self.kinds[target].size - counts[target]
                if source == target or not room or self._is_worse(source, target, costs):
                    continue
                for many in {1, min(count, room)}:
                    trial = list(counts)
                    trial[source] -= many
                    trial[target] += many
                    found = self._keys(trial)
                    if found < keys:
                        best, keys = (trial, found), found
        return best

    def _cost(self, place: int, counts: Sequence[int]) -> int:
        """Sum of the weights from one more unit of a class to all that is taken."""
        kind = self.kinds[place]
        rest = sum(count * kind.to[other] for other, count in enumerate(counts) if other != place)
        return kind.fixed + rest + counts[place] * kind.inside

    def _is_worse(self, source: int, target: int, costs: Sequence[int]) -> bool:
        """Whether to move one unit costs weight, where nothing but weight can be gained."""
        kind = self.kinds[source]
        gain = costs[source] - kind.inside - costs[target] + kind.to[target]
        return gain < 0 and not self.question.parts

    def _keys(self, counts: Sequence[int]) -> Keys:
        weight = self._fixed
        for place, kind in enumerate(self.kinds):
            count = counts[place]
            if count:
                pairs = count * (count - 1) // 2
                weight += count * kind.fixed + pairs * kind.inside
                for other in range(place):
                    if counts[other]:
                        weight += count * counts[other] * kind.to[other]
        return (
            self._gpus.broken(counts),
            weight,
            self._gpus.spare(counts),
            self._nodes.spare(counts),
        )

    def _descend(self, place: int, left: int, weight: int) -> None:
        self.steps -= 1
        if self.steps < 0:
            return
        if not left:
            keys = self._keys(self._counts)
            if keys < self.best_keys or (keys == self.best_keys and self._comes_first()):
                self.best, self.best_keys = list(self._counts), keys
            return
        if self._after[place] < left or self._is_hopeless(place, left, weight):
            return
        kind = self.kinds[place]
        most = min(kind.size, left)
        if kind.twin >= 0:
            most = min(most, self._counts[kind.twin])
        for count in range(most, max(0, left - self._after[place + 1]) - 1, -1):
            added = count * self._base[place] + count * (count - 1) // 2 * kind.inside
            self._take(place, count)
            self._descend(place + 1, left - count, weight + added)
            self._take(place, -count)
            if self.steps < 0:
                return

    def _comes_first(self) -> bool:
        return _places(self.kinds, self._counts) < _places(self.kinds, self.best)

    def _take(self, place: int, count: int) -> None:
        self._counts[place] += count
        if count:
            to = self.kinds[place].to
            base = self._base
            for other in range(place + 1, len(base)):
                base[other] += count * to[other]

    def _is_hopeless(self, place: int, left: int, weight: int) -> bool:
        """Whether no completion can be better than the best set so far."""
        broken = self._gpus.broken_before(place, self._counts)
        broken += self._gpus.must_break(place, left)
        if broken != self.best_keys[0]:
            return broken > self.best_keys[0]
        # Each further unit costs its weights to what is taken, and half of the weights to the
        # others that are still to come, which are no less than its smallest ones.
        costs = sorted(
            (2 * self._base[each] + self.kinds[each].near[left - 1], self.kinds[each].size)
            for each in range(place, len(self.kinds))
        )
        least, open_units = 2 * weight, left
        for cost, size in costs:
            taken = min(size, open_units)
            least += cost * taken
            open_units -= taken
            if not open_units:
                break
        if least != 2 * self.best_keys[1]:
            return least > 2 * self.best_keys[1]
        spare = (
            max(0, self._gpus.spare(self._counts) - left),
            max(0, self._nodes.spare(self._counts) - left),
        )
        return spare >= self.best_keys[2:]


_SEEDS = 16
_IMPROVED = 4
_ROUNDS = 8
