"""How near GPUs and partitions are to each other, by the weights of KFD's links."""

from collections.abc import Iterable, Mapping

from deviceplugin.model import DeviceId, Links
from deviceplugin.vendors.amd.kfd import KfdNode

_PCIE = 2


def weights(nodes: Mapping[int, DeviceId], gpus: Iterable[KfdNode]) -> Links:
    """Take the lightest link of each pair, whichever end and whichever folder tells of it.

    The kernel's weights: 13 within a GPU, 15 by XGMI, 41 to a partition of another GPU, 20
    for each PCIe segment. A pair that no link tells of stays unknown.
    """
    found: dict[tuple[DeviceId, DeviceId], int] = {}
    for node in gpus:
        here = nodes.get(node.number)
        for link in node.links:
            there = nodes.get(link.to)
            if here is None or there is None or here == there:
                continue
            pair = (here, there) if here < there else (there, here)
            found[pair] = min(link.weight, found.get(pair, link.weight))
    return Links(weights=dict(sorted(found.items())))


def numa_rank(node: KfdNode, cpus: tuple[int, ...]) -> int | None:
    """The NUMA node next to a GPU, by its lightest PCIe link to a CPU node; None for unknown.

    CPU nodes of KFD stand for NUMA nodes in their order.
    """
    near = [link for link in node.links if link.kind == _PCIE and link.to in cpus]
    if not near:
        return None
    return cpus.index(min(near, key=lambda link: (link.weight, link.to)).to)
