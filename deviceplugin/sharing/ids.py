"""The grammar of unit ids: ``<device>`` for a whole device, ``<device>::<n>`` for a share.

Within the sharing code a unit is its device and a slot: the share's number, or ``WHOLE``.
"""

import functools
import re

from deviceplugin.model import DeviceId, UnitId

WHOLE = -1
"""The slot of the plain device id; sorts before all shares."""

_MARK = "::"
_NUMBER = re.compile("0|[1-9][0-9]{0,8}")  # one spelling for one share: no "::01" beside "::1"


def share_id(device: DeviceId, n: int) -> UnitId:
    """Id of share ``n`` of a device, from 0."""
    return UnitId(f"{device}{_MARK}{n}")


def unit_id(device: DeviceId, slot: int) -> UnitId:
    """Id of a slot: a share, or the whole device."""
    return UnitId(device) if slot == WHOLE else share_id(device, slot)


@functools.lru_cache(maxsize=64)
def share_ids(device: DeviceId, count: int) -> tuple[UnitId, ...]:
    """Ids of the first ``count`` shares; remembered, since each plan asks again."""
    return tuple(share_id(device, n) for n in range(count))


def split(unit: UnitId) -> tuple[DeviceId, int | None]:
    """The device of a unit, and its share number; None for a whole device.

    Ids that other plugins left behind are taken for whole devices of that name.
    """
    device, mark, digits = unit.rpartition(_MARK)
    if device and mark and _NUMBER.fullmatch(digits):
        return DeviceId(device), int(digits)
    return DeviceId(unit), None


def slot_of(unit: UnitId) -> tuple[DeviceId, int]:
    """As ``split``, with ``WHOLE`` where there is no share number."""
    device, n = split(unit)
    return device, WHOLE if n is None else n
