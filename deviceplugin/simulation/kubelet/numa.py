"""NUMA alignment: which nodes a container's devices of one resource should be on."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Literal

from deviceplugin.simulation.kubelet.outcomes import AlignmentError

Policy = Literal["none", "best-effort", "single-numa-node"]

Nodes = Mapping[str, tuple[int, ...]]
"""NUMA nodes by device id."""


def mask(policy: Policy, listed: Nodes, usable: set[str], size: int) -> frozenset[int] | None:
    """The fewest, lowest nodes that can serve a request; None for "any".

    Where one device of a resource has a node, those without never count.

    Args:
        policy: ``none`` asks nobody to align.
        listed: every device of the resource.
        usable: ids that are free, or lent to this container.
        size: how many are asked for.

    Raises:
        AlignmentError: no single node serves, under ``single-numa-node``.

    """
    if policy == "none" or not any(listed.values()):
        return None
    widest = 1 if policy == "single-numa-node" else None
    for nodes in _masks(listed, widest):
        if len(aligned(listed, usable, nodes)) >= size:
            return nodes
    if policy == "single-numa-node":
        raise AlignmentError("Resources cannot be allocated with Topology locality")
    return None


def aligned(listed: Nodes, ids: set[str], nodes: frozenset[int]) -> set[str]:
    """Those ids that touch one of the nodes."""
    return {id_ for id_ in ids if nodes.intersection(listed.get(id_, ()))}


def _masks(listed: Nodes, widest: int | None) -> Iterator[frozenset[int]]:
    known = sorted({node for nodes in listed.values() for node in nodes})
    for width in range(1, (widest or len(known)) + 1):
        for nodes in combinations(known, width):
            yield frozenset(nodes)
