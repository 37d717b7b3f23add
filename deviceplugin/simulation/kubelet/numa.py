"""NUMA alignment: which nodes a container's devices of one resource should be on."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from deviceplugin.simulation.kubelet.outcomes import AlignmentError

Policy = Literal["none", "best-effort", "restricted", "single-numa-node"]

Nodes = Mapping[str, tuple[int, ...]]
"""NUMA nodes by device id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a container asks for of one resource.

    Attributes:
        listed: every device of the resource, healthy or not.
        available: ids that are free.
        lent: ids of the pod's finished init containers, which this one gets first.
        size: how many ids in all.

    """

    listed: Nodes
    available: Collection[str]
    lent: Collection[str] = ()
    size: int


def mask(
    policy: Policy, request: Request, machine: tuple[int, ...] | None = None
) -> frozenset[int] | None:
    """The fewest, lowest nodes that can serve a request; None for "any".

    Where one device of a resource has a node, those without never count, nor do those on
    nodes that the machine does not have. ``restricted`` wants no more nodes than the request
    would take on an empty machine, ``single-numa-node`` wants one.

    Args:
        policy: ``none`` asks nobody to align.
        request: what is asked for.
        machine: the nodes that there are; None for those that devices name.

    Raises:
        AlignmentError: the policy insists, and the nodes that it wants cannot serve.

    """
    if policy == "none" or not any(request.listed.values()):
        return None
    known = {node for nodes in request.listed.values() for node in nodes}
    masks = list(_masks(sorted(known if machine is None else machine)))
    fewest = next((len(nodes) for nodes in masks if _on_empty(request, nodes)), len(masks))
    serving = next((nodes for nodes in masks if _serves(request, nodes)), None)
    if _insists(policy) and (serving is None or len(serving) > _most(policy, fewest)):
        raise AlignmentError("Resources cannot be allocated with Topology locality")
    return serving


def aligned(listed: Nodes, ids: Collection[str], nodes: frozenset[int]) -> set[str]:
    """Those ids that touch one of the nodes."""
    return {id_ for id_ in ids if nodes.intersection(listed.get(id_, ()))}


def _insists(policy: Policy) -> bool:
    return policy in {"restricted", "single-numa-node"}


def _most(policy: Policy, fewest: int) -> int:
    return 1 if policy == "single-numa-node" else fewest


def _on_empty(request: Request, nodes: frozenset[int]) -> bool:
    return len(aligned(request.listed, request.listed, nodes)) >= request.size


def _serves(request: Request, nodes: frozenset[int]) -> bool:
    placed = {id_ for id_ in request.lent if request.listed.get(id_)}
    if placed != aligned(request.listed, placed, nodes):
        return False
    free = aligned(request.listed, set(request.available) - placed, nodes)
    return len(placed) + len(free) >= request.size


def _masks(known: list[int]) -> Iterator[frozenset[int]]:
    for width in range(1, len(known) + 1):
        for nodes in combinations(known, width):
            yield frozenset(nodes)
