"""Short names for the devices of a simulated machine, as people count them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deviceplugin.simulation.machine import Machine

_UUID = re.compile(r"GPU-[0-9a-f]{8}-[0-9a-f-]{27}")


@dataclass(frozen=True, slots=True)
class Names:
    """``GPU 3`` for a UUID, ``GPU 3::1`` for a share of it."""

    by_id: Mapping[str, str]

    @classmethod
    def of(cls, machine: Machine) -> "Names":
        """Name the devices of a machine."""
        gpus = machine.nvidia.gpus if machine.nvidia else ()
        return cls({gpu.uuid: f"GPU {gpu.index}" for gpu in gpus})

    def device(self, unit: str) -> str:
        """Return the name of the device of a unit."""
        device = unit.partition("::")[0]
        return self.by_id.get(device, device)

    def shorten(self, text: str) -> str:
        """Put names into a text in place of ids."""
        return _UUID.sub(lambda found: self.by_id.get(found[0], found[0]), text)

    def listed(self, units: Iterable[str]) -> str:
        """Return the names of units, in the machine's order."""
        return ", ".join(self.shorten(unit) for unit in self.in_order(units))

    def in_order(self, units: Iterable[str]) -> list[str]:
        """Sort units by the machine's order, then by share."""
        return sorted(units, key=self.order)

    def order(self, unit: str) -> tuple[int, str, int]:
        """Sort key of a unit or a device: unknown devices come last."""
        device, _, share = unit.partition("::")
        known = list(self.by_id)
        place = known.index(device) if device in self.by_id else len(known)
        return place, device, int(share) if share.isdigit() else -1
