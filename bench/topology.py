"""Which units to take together: time of the search on the shapes that there are."""

import itertools
import time
from collections.abc import Callable, Iterable

from bench.figures import Effort, Figure
from deviceplugin.allocation.question import Candidate, Question
from deviceplugin.allocation.topology import choose
from deviceplugin.model import DeviceId


def topology(effort: Effort) -> Iterable[Figure]:
    """8 of 16 whole GPUs, beside brute force in the same run; 56 and 20 of 64 partitions."""
    sockets = _whole(16, 8)
    yield _figure("choose 8 of 16 GPUs on four sockets", sockets, effort, target=10.0)
    brute = [_spent(lambda: _by_brute_force(sockets)) for _ in range(effort.times(3, 1))]
    yield Figure(name="the same by brute force", unit="ms", values=brute, target=None)
    for take, target in ((56, 50.0), (20, None), (8, None), (1, None)):
        yield _figure(f"choose {take} of 64 partitions", _eighths(take), effort, target=target)


def _figure(name: str, question: Question, effort: Effort, *, target: float | None) -> Figure:
    assert choose(question).proven
    values = [_spent(lambda: choose(question)) for _ in range(effort.times(200, 20))]
    return Figure(name=name, unit="ms", values=values, target=target)


def _spent(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def _whole(count: int, take: int) -> Question:
    free = [
        Candidate(device=DeviceId(str(n)), gpu=DeviceId(str(n)), node=n // 4) for n in range(count)
    ]
    return Question(free=free, fixed=(), count=take, parts={}, weight=_sockets)


def _sockets(one: DeviceId, other: DeviceId) -> int:
    a, b = int(one), int(other)
    return 20 if a // 2 == b // 2 else 40 if a // 4 == b // 4 else 72


def _eighths(take: int) -> Question:
    free = [
        Candidate(device=DeviceId(f"{gpu}-p{part}"), gpu=DeviceId(str(gpu)), node=gpu // 4)
        for gpu, part in itertools.product(range(8), range(8))
    ]
    parts = {DeviceId(str(gpu)): 8 for gpu in range(8)}
    return Question(free=free, fixed=(), count=take, parts=parts, weight=_within)


def _within(one: DeviceId, other: DeviceId) -> int:
    return 13 if one[0] == other[0] else 41


def _by_brute_force(question: Question) -> int:
    devices = [each.device for each in question.free]
    return min(
        sum(question.weight(one, other) for one, other in itertools.combinations(chosen, 2))
        for chosen in itertools.combinations(devices, question.count)
    )
