"""Which ``/dev/dri`` nodes belong to what: the ``drm`` folder of a PCI function, or of a partition.

The driver makes platform devices for the partitions beyond the first, more of them than
are in use. Kernels name them ``amdgpu_xcp_3`` or ``amdgpu_xcp.3``.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deviceplugin import sysfs

_CARD = re.compile(r"card([0-9]{1,6})", re.ASCII)
_RENDER = re.compile(r"renderD([0-9]{1,6})", re.ASCII)
_PARTITION = re.compile(r"amdgpu_xcp[._][0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minors:
    """Numbers of the nodes ``card<N>`` and ``renderD<N>``; None where there is not exactly one."""

    card: int | None = None
    render: int | None = None


def minors(device: Path) -> Minors:
    """Read the numbers of one device's nodes from its own folder."""
    names = sysfs.entries(device / "drm")
    return Minors(card=_only(_CARD, names), render=_only(_RENDER, names))


def partitions(root: Path) -> Mapping[int, Minors]:
    """Nodes of the driver's partition devices by render minor; none that comes twice."""
    folder = root / "devices/platform"
    names = filter(_PARTITION.fullmatch, sysfs.entries(folder))
    found = [each for each in (minors(folder / name) for name in names) if each.render]
    count = Counter(each.render for each in found)
    return {each.render: each for each in found if each.render and count[each.render] == 1}


def _only(pattern: re.Pattern[str], names: list[str]) -> int | None:
    matches = [match for name in names if (match := pattern.fullmatch(name))]
    return int(matches[0][1]) if len(matches) == 1 else None
