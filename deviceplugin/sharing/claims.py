"""Held units by device and slot, as the draining rules look at them."""

from collections.abc import Collection, Mapping

from deviceplugin.model import DeviceId, ResourceName, UnitId
from deviceplugin.sharing.ids import slot_of

Held = Mapping[ResourceName, frozenset[int]]
"""Slots of one device that pods hold, by the name they were allocated under."""


def by_device(
    held: Mapping[ResourceName, frozenset[UnitId]], names: Collection[ResourceName]
) -> dict[DeviceId, Held]:
    """Sort what is held under ``names`` by device; other names are somebody else's."""
    slots: dict[DeviceId, dict[ResourceName, set[int]]] = {}
    for name in names:
        for unit in held.get(name, ()):
            device, slot = slot_of(unit)
            slots.setdefault(device, {}).setdefault(name, set()).add(slot)
    return {
        device: {name: frozenset(found) for name, found in rows.items()}
        for device, rows in slots.items()
    }
