"""Whole devices and partitions: the best set by brute force, and on the shapes that there are."""

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deviceplugin.allocation.question import Candidate, Question
from deviceplugin.allocation.topology import Choice, Keys, choose
from deviceplugin.model import UNKNOWN_LINK, DeviceId

Weight = Callable[[DeviceId, DeviceId], int]


def keys(question: Question, places: Sequence[int]) -> Keys:
    """The four numbers of a set, each counted the plain way."""
    taken = [question.free[place] for place in places]
    weights = (
        question.weight(one.device, other.device)
        for one, other in itertools.combinations([*taken, *question.fixed], 2)
    )
    free, held = Counter(c.gpu for c in question.free), Counter(c.gpu for c in question.fixed)
    now = Counter(c.gpu for c in taken)
    broken = sum(
        free[gpu] + held[gpu] == parts and 0 < now[gpu] + held[gpu] < parts
        for gpu, parts in question.parts.items()
    )
    spare = sum(free[gpu] - now[gpu] for gpu in question.parts if now[gpu] + held[gpu])
    nodes = {each.node for each in [*taken, *question.fixed]} - {None}
    left = sum(each.node in nodes for each in question.free)
    return broken, sum(weights), spare, left - sum(each.node in nodes for each in taken)


def best(question: Question) -> Keys:
    """The least of all sets."""
    places = range(len(question.free))
    return min(keys(question, each) for each in itertools.combinations(places, question.count))


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Up to nine devices, whole or in parts, of which some are taken and some must be included."""
    parts = draw(st.sampled_from([1, 2, 3, 4]))
    count = draw(st.integers(1, 9))
    devices = [
        Candidate(
            device=DeviceId(f"{number // parts}-p{number % parts}"),
            gpu=DeviceId(str(number // parts)),
            node=draw(st.sampled_from([None, 0, 1])),
        )
        for number in range(count)
    ]
    levels = draw(st.sampled_from([[7], [13, 41], [1, 2, 3, UNKNOWN_LINK], list(range(40))]))
    table = {
        frozenset((one.device, other.device)): draw(st.sampled_from(levels))
        for one, other in itertools.combinations(devices, 2)
    }
    offered = [each for each in devices if draw(st.booleans())] or devices
    must = draw(st.integers(0, min(2, len(offered) - 1)))
    listed = Counter(each.gpu for each in devices)
    return Question(
        free=offered[must:],
        fixed=offered[:must],
        count=draw(st.integers(0, len(offered) - must)),
        parts={gpu: number for gpu, number in listed.items() if number > 1},
        weight=lambda one, other: table[frozenset((one, other))],
    )


@given(question=questions())
@settings(max_examples=500, deadline=None, derandomize=True)
def test_as_good_as_brute_force(question: Question) -> None:
    """No set is better, the answer is said to be proven, and it is counted right."""
    choice = choose(question)
    assert len(set(choice.places)) == question.count
    assert choice.proven
    assert choice.keys == keys(question, choice.places) == best(question)


def whole(count: int, weight: Weight, take: int, nodes: int = 1) -> Question:
    """GPUs that are not divided, evenly over NUMA nodes."""
    free = [
        Candidate(device=DeviceId(str(n)), gpu=DeviceId(str(n)), node=n * nodes // count)
        for n in range(count)
    ]
    return Question(free=free, fixed=(), count=take, parts={}, weight=weight)


def eighths(take: int, free: Mapping[int, Sequence[int]] | None = None) -> Question:
    """Eight GPUs in eight parts each; ``free`` has the parts of each that are free."""
    free = free or {gpu: range(8) for gpu in range(8)}
    return Question(
        free=[
            Candidate(device=DeviceId(f"{gpu}-p{part}"), gpu=DeviceId(str(gpu)), node=gpu // 4)
            for gpu, parts in free.items()
            for part in parts
        ],
        fixed=(),
        count=take,
        parts={DeviceId(str(gpu)): 8 for gpu in range(8)},
        weight=_within,
    )


def _within(one: DeviceId, other: DeviceId) -> int:
    return 13 if one[0] == other[0] else 41


def _hives(one: DeviceId, other: DeviceId) -> int:
    return 15 if int(one) // 4 == int(other) // 4 else 72


def _sockets(one: DeviceId, other: DeviceId) -> int:
    a, b = int(one), int(other)
    return 20 if a // 2 == b // 2 else 40 if a // 4 == b // 4 else 72


def taken(question: Question, choice: Choice) -> Counter[str]:
    """How many units of each GPU."""
    return Counter(str(question.free[place].gpu) for place in choice.places)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8])
def test_two_hives(count: int) -> None:
    """A request that fits a hive stays in it."""
    question = whole(8, _hives, count, nodes=2)
    choice = choose(question)
    assert choice.keys == best(question)
    assert count > 4 or len({int(gpu) // 4 for gpu in taken(question, choice)}) == 1


@pytest.mark.parametrize(
    ("weight", "nodes"),
    [(lambda *_: 15, 1), (_sockets, 4), (_hives, 4)],
    ids=["one hive", "four sockets with switches", "hives of four"],
)
def test_eight_of_sixteen(weight: Weight, nodes: int) -> None:
    """All 12,870 sets were looked at by brute force: none is better."""
    question = whole(16, weight, 8, nodes)
    choice = choose(question)
    assert choice.proven
    assert choice.keys == best(question)


@pytest.mark.parametrize(
    ("count", "gpus"),
    [
        (1, [1]),
        (7, [7]),
        (8, [8]),
        (9, [1, 8]),
        (12, [4, 8]),
        (16, [8, 8]),
        (56, [8] * 7),
        (57, [1, *[8] * 7]),
        (64, [8] * 8),
    ],
)
def test_parts_of_as_few_gpus_as_can_be(count: int, gpus: list[int]) -> None:
    """With all 64 parts free, whole GPUs are filled and at most one is broken."""
    question = eighths(count)
    choice = choose(question)
    assert choice.proven
    assert sorted(taken(question, choice).values()) == gpus
    assert choice.keys[0] == (1 if count % 8 else 0)


@pytest.mark.parametrize(
    ("count", "gpus"),
    [
        pytest.param(1, {"2": 1}, id="the-one-that-is-left-over"),
        pytest.param(2, {"1": 2}, id="together-on-a-broken-one"),
        pytest.param(3, {"1": 3}, id="fills-a-broken-one"),
        pytest.param(4, {"1": 3, "2": 1}, id="two-broken-ones-before-a-whole"),
        pytest.param(8, {"0": 8}, id="a-whole-one-that-fits"),
    ],
)
def test_broken_gpus_first(count: int, gpus: dict[str, int]) -> None:
    """Small requests go to GPUs that are broken already; whole ones are kept for who needs them."""
    question = eighths(count, {0: range(8), 1: [0, 4, 7], 2: [3], 3: range(8)})
    assert taken(question, choose(question)) == gpus


def test_what_must_be_included_is_where_the_rest_goes() -> None:
    """The GPU of the unit that must be included gets the others, though another is fuller."""
    base = eighths(3, {0: range(8), 1: range(1, 8), 2: [0, 1, 2]})
    fixed = Candidate(device=DeviceId("1-p0"), gpu=DeviceId("1"), node=0)
    question = Question(
        free=base.free, fixed=[fixed], count=3, parts=base.parts, weight=base.weight
    )
    choice = choose(question)
    # All parts of GPU 1 were free: it is broken whatever is taken, so it is the one.
    assert taken(question, choice) == {"1": 3}


def test_a_search_that_is_cut_off_says_so() -> None:
    """Without steps the best of the quick sets is given, of the right size and not proven."""
    question = whole(16, lambda one, other: hash((int(one) ^ int(other)) * 2654435761) % 97, 8)
    choice = choose(question, steps=1)
    assert len(choice.places) == 8
    assert not choice.proven
    assert choice.keys == keys(question, choice.places)


@pytest.mark.parametrize(
    ("question", "milliseconds"),
    [
        pytest.param(whole(16, _sockets, 8, 4), 10, id="8 of 16 GPUs"),
        pytest.param(eighths(56), 50, id="56 of 64 parts"),
        pytest.param(eighths(20, {g: range(g + 1) for g in range(8)}), 50, id="20 of fragments"),
    ],
)
def test_in_time(question: Question, milliseconds: int) -> None:
    """The limits hold with room, though other work runs on this machine at the same time."""
    spent = []
    for _ in range(5):
        begun = time.perf_counter()
        choose(question)
        spent.append(time.perf_counter() - begun)
    assert min(spent) * 1000 < milliseconds
