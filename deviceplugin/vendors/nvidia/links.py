"""How near NVIDIA GPUs are to each other: NVLinks, then the PCIe path, then NUMA nodes.

Lower is nearer:

====  ==========================================================
 4-39 40 less the number of NVLinks between the two, direct or through switches
 50   behind the same PCIe bridge or switch
 60   on the same PCIe root, that is the same host bridge
 70   on the same NUMA node
 80   NUMA node of one of them unknown
 90   on different NUMA nodes
====  ==========================================================

A pair is as near as its best way. Nothing between GPUs changes while the driver is loaded, so
it is asked for once for each set of GPUs.
"""

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from deviceplugin.model import DeviceId, Links
from deviceplugin.pci import PciBus
from deviceplugin.vendors.nvidia.door import SWITCH, GpuInfo, Nvml, NvmlError

logger = logging.getLogger(__name__)

_NVLINK = 40
_SAME_BRIDGE, _SAME_ROOT, _SAME_NODE, _UNKNOWN_NODE, _OTHER_NODE = 50, 60, 70, 80, 90

NvLinks = Mapping[str, int]
"""Active links of a GPU by the PCI address of what is at their other end, or ``SWITCH``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a GPU sits.

    Attributes:
        path: PCI root and bridges above it, outermost first; () where unknown.

    """

    address: str
    path: tuple[str, ...] = ()
    numa_node: int | None = None
    nvlinks: NvLinks = field(default_factory=dict)


def weight(one: Place, other: Place) -> int | None:
    """Weight of a pair; None where nothing at all is known of one of them. Pure."""
    count = max(
        one.nvlinks.get(other.address, 0),
        other.nvlinks.get(one.address, 0),
        min(one.nvlinks.get(SWITCH, 0), other.nvlinks.get(SWITCH, 0)),
    )
    if count:
        return max(1, _NVLINK - count)
    if not one.path or not other.path:
        return None
    shared = sum(1 for _ in itertools.takewhile(_equal, zip(one.path, other.path, strict=False)))
    if shared:
        return _SAME_BRIDGE if shared > 1 else _SAME_ROOT
    if one.numa_node is None or other.numa_node is None:
        return _UNKNOWN_NODE
    return _SAME_NODE if one.numa_node == other.numa_node else _OTHER_NODE


def _equal(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


@dataclass(slots=True, kw_only=True)
class LinkMap:
    """Links between the GPUs of a driver session; for the scan thread."""

    bus: PciBus
    _of: tuple[str, ...] | None = None
    _links: Links = field(default_factory=Links)

    def forget(self) -> None:
        """Ask again: the driver was opened anew."""
        self._of = None

    def between(self, door: Nvml, gpus: Sequence[GpuInfo]) -> Links:
        """Links between these GPUs; an error of one leaves that one without NVLinks."""
        uuids = tuple(gpu.uuid for gpu in gpus)
        if uuids != self._of:
            self._links = self._look(lambda gpu: _nvlinks(door, gpu), gpus)
            self._of = uuids
        return self._links

    def _look(self, nvlinks: Callable[[GpuInfo], NvLinks], gpus: Sequence[GpuInfo]) -> Links:
        places = {
            DeviceId(gpu.uuid): Place(
                address=gpu.pci_address,
                path=self.bus.path(gpu.pci_address),
                numa_node=self.bus.numa_node(gpu.pci_address),
                nvlinks=nvlinks(gpu),
            )
            for gpu in gpus
        }
        pairs = itertools.combinations(sorted(places), 2)
        found = {(one, other): weight(places[one], places[other]) for one, other in pairs}
        return Links(weights={pair: known for pair, known in found.items() if known is not None})


def _nvlinks(door: Nvml, gpu: GpuInfo) -> NvLinks:
    try:
        return door.nvlinks(gpu.uuid)
    except NvmlError as error:
        logger.info("NVLinks not read", extra={"gpu": gpu.uuid, "error": str(error)})
        return {}
