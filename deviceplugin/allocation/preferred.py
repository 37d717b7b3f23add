"""GetPreferredAllocation: which of the offered units are best taken together. Pure.

Nothing is remembered between calls: what is taken shows in what the kubelet offers.
"""

import heapq
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deviceplugin.allocation import topology
from deviceplugin.allocation.question import Candidate, Question, Weight
from deviceplugin.model import DeviceId, Policy, ResourceView, UnitId

logger = logging.getLogger(__name__)

_SAME_NODE, _OTHER_NODE = 10, 20
"""Weights of pairs by NUMA node alone; only their order matters."""


def preferred(
    view: ResourceView, available: Sequence[UnitId], must_include: Sequence[UnitId], size: int
) -> list[UnitId]:
    """Choose ``size`` units, or all there are if fewer; never raises, never more.

    The kubelet fails the pod on an error, fills a short answer at random and cuts a long
    one at random. So ``must_include`` comes first, then

    1. healthy units. Whole devices and partitions: the set that breaks the fewest GPUs, then
       the nearest by the vendor's links (by NUMA node where there are none), see
       ``topology``. Shares: each next one from the device with the fewest units in this
       answer, then by policy (fewest or most shares taken), then by index;
    2. units that turned Unhealthy since the kubelet was told;
    3. ids we never listed.

    Units of a device that are not offered are taken. The order of the arguments does not
    matter. Costs about one pass over the ids of the resource.
    """
    chosen = sorted(set(must_include))
    offered = set(available).difference(chosen)
    size = max(0, min(size, len(chosen) + len(offered)))
    for tier in _tiers(view, offered):
        if len(chosen) >= size:
            break
        chosen += _take(view, tier, chosen, size - len(chosen))
    chosen += sorted(offered.difference(view.unit_by_id))[: max(0, size - len(chosen))]
    return chosen[:size]


def _tiers(view: ResourceView, offered: set[UnitId]) -> Iterator[set[UnitId]]:
    yield offered - view.unhealthy
    yield offered & view.unhealthy


@dataclass(slots=True, order=True)
class _Candidate:
    """A device with free units; the order is the order of choice.

    Attributes:
        picked: its units in this answer so far.
        rank: what the policy makes of its taken shares; lower goes first.
        place: of the device in the view, that is by index.
        free: ids to take, the next one last.

    """

    picked: int
    rank: int
    place: int
    device: DeviceId
    free: list[UnitId]


def _take(
    view: ResourceView, offered: set[UnitId], chosen: Sequence[UnitId], count: int
) -> list[UnitId]:
    candidates = _candidates(view, offered, chosen)
    if len(candidates) <= topology.MOST and all(_is_whole(each) for each in candidates):
        return _whole(view, candidates, chosen, count)
    heapq.heapify(candidates)
    step = 1 if view.rules.policy is Policy.DISTRIBUTED else -1
    taken: list[UnitId] = []
    while candidates and len(taken) < count:
        best = candidates[0]
        taken.append(best.free.pop())
        best.picked += 1
        best.rank += step
        if best.free:
            heapq.heapreplace(candidates, best)
        else:
            heapq.heappop(candidates)
    return taken


def _candidates(
    view: ResourceView, offered: set[UnitId], chosen: Sequence[UnitId]
) -> list[_Candidate]:
    picked = _picked(view, chosen)
    sign = 1 if view.rules.policy is Policy.DISTRIBUTED else -1
    candidates = []
    for place, (device, ids) in enumerate(view.ids_by_device.items()):
        free = [unit for unit in reversed(ids) if unit in offered]
        if free:
            rank = sign * (len(ids) - len(free))
            candidates.append(_Candidate(picked.get(device, 0), rank, place, device, free))
    return candidates


def _picked(view: ResourceView, chosen: Iterable[UnitId]) -> Mapping[DeviceId, int]:
    picked: dict[DeviceId, int] = {}
    for unit in chosen:
        known = view.unit_by_id.get(unit)
        if known is not None:
            picked[known.device] = picked.get(known.device, 0) + 1
    return picked


def _whole(
    view: ResourceView, candidates: Sequence[_Candidate], chosen: Sequence[UnitId], count: int
) -> list[UnitId]:
    free = [_placed(view, candidate.device) for candidate in candidates]
    fixed = [_placed(view, device) for device in _picked(view, chosen)]
    question = Question(
        free=free,
        fixed=fixed,
        count=min(count, len(free)),
        parts=_parts(view),
        weight=view.links.weight if view.links.weights else _by_node(free + fixed),
    )
    choice = topology.choose(question)
    if not choice.proven:
        logger.info("preferred allocation may not be the best", extra={"resource": view.name})
    return [candidates[place].free[0] for place in choice.places]


def _placed(view: ResourceView, device: DeviceId) -> Candidate:
    known = view.devices.get(device)
    node = view.unit_by_id[view.ids_by_device[device][0]].numa_node
    return Candidate(device=device, gpu=known.physical if known else device, node=node)


def _parts(view: ResourceView) -> Mapping[DeviceId, int]:
    """Units of each GPU that is listed in parts; a GPU with one part cannot be broken."""
    parts = Counter(device.parent for device in view.devices.values() if device.parent)
    return {gpu: count for gpu, count in parts.items() if count > 1}


def _by_node(candidates: Iterable[Candidate]) -> Weight:
    """Weights where nobody knows of links: a NUMA node's devices are near to each other."""
    nodes = {each.device: each.node for each in candidates}

    def weight(one: DeviceId, other: DeviceId) -> int:
        same = nodes[one] is not None and nodes[one] == nodes[other]
        return _SAME_NODE if same else _OTHER_NODE

    return weight


def _is_whole(candidate: _Candidate) -> bool:
    return len(candidate.free) == 1 and str(candidate.free[0]) == str(candidate.device)
