"""GetPreferredAllocation: which of the offered units are best taken together. Pure.

Nothing is remembered between calls: what is taken shows in what the kubelet offers.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deviceplugin.model import DeviceId, Policy, ResourceView, UnitId


def preferred(
    view: ResourceView, available: Sequence[UnitId], must_include: Sequence[UnitId], size: int
) -> list[UnitId]:
    """Choose ``size`` units, or all there are if fewer; never raises, never more.

    The kubelet fails the pod on an error, fills a short answer at random and cuts a long
    one at random. So ``must_include`` comes first, then

    1. healthy units: each next one from the device with the fewest units in this answer,
       then by policy (fewest or most shares taken), then by index; whole devices from one
       NUMA node where a node can serve all of them, the one with the fewest to spare;
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
    candidates = _near(view, _candidates(view, offered, chosen), chosen, count)
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


def _near(
    view: ResourceView, candidates: list[_Candidate], chosen: Sequence[UnitId], count: int
) -> list[_Candidate]:
    """Keep the candidates of one NUMA node, where whole devices are asked and one suffices."""
    if not all(_is_whole(candidate) for candidate in candidates):
        return candidates
    nodes: dict[int, list[_Candidate]] = {}
    for candidate in candidates:
        node = view.unit_by_id[candidate.free[0]].numa_node
        if node is not None:
            nodes.setdefault(node, []).append(candidate)
    wanted = _nodes(view, chosen) or nodes.keys()
    fits = [nodes[node] for node in sorted(nodes.keys() & wanted) if len(nodes[node]) >= count]
    return min(fits, key=len, default=candidates)


def _is_whole(candidate: _Candidate) -> bool:
    return len(candidate.free) == 1 and str(candidate.free[0]) == str(candidate.device)


def _nodes(view: ResourceView, chosen: Iterable[UnitId]) -> frozenset[int]:
    known = (view.unit_by_id.get(unit) for unit in chosen)
    return frozenset(
        unit.numa_node for unit in known if unit is not None and unit.numa_node is not None
    )
