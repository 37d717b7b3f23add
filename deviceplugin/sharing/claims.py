"""Held units by device and slot, as the draining rules look at them."""

from collections.abc import Collection, Mapping

from deviceplugin.model import DeviceId, ResourceName, UnitId
from deviceplugin.sharing.ids import slot_of

Held = Mapping[ResourceName, frozenset[int]]
"""Slots of one device that pods hold, by the name they were allocated under."""


def by_device(
    held: Mapping[ResourceName, frozenset[UnitId]],
    names: Collection[ResourceName],
    known: Collection[DeviceId],
) -> dict[DeviceId, Held]:
    """Sort what is held by device.

    Counted are all units under ``names``, and those of ``known`` devices under any other name
    of the same domain: a name that a lost config or a predecessor gave them. What stands under
    another domain is another plugin's, whatever its ids look like.
    """
    domains = {name.partition("/")[0] for name in names}
    slots: dict[DeviceId, dict[ResourceName, set[int]]] = {}
    for name, units in held.items():
        ours, kin = name in names, name.partition("/")[0] in domains
        for unit in units if kin else ():
            device, slot = slot_of(unit)
            if ours or device in known:
                slots.setdefault(device, {}).setdefault(name, set()).add(slot)
    return {
        device: {name: frozenset(found) for name, found in rows.items()}
        for device, rows in slots.items()
    }
