"""Short names for the devices of a simulated machine, as people count them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deviceplugin.simulation.machine import Machine

_UUID = re.compile(r"GPU-[0-9a-f]{8}-[0-9a-f-]{27}")
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PART = re.compile(r"(.*)-p([0-9]+)")


@dataclass(frozen=True, slots=True)
class Names:
    """``GPU 3`` for a UUID or PCI address, ``GPU 3-p5`` for a partition, ``GPU 3::1`` for a share.

    Where a machine has GPUs of two vendors they are ``NVIDIA 0`` and ``AMD 0``.
    """

    by_id: Mapping[str, str]

    @classmethod
    def of(cls, machine: Machine) -> "Names":
        """Name the devices of a machine."""
        several = machine.nvidia is not None and machine.amd is not None
        nvidia, amd = ("NVIDIA", "AMD") if several else ("GPU", "GPU")
        named = {
            gpu.uuid: f"{nvidia} {gpu.index}"
            for gpu in (machine.nvidia.gpus if machine.nvidia else ())
        }
        named |= {
            gpu.pci_address: f"{amd} {gpu.index}"
            for gpu in (machine.amd.gpus if machine.amd else ())
        }
        return cls(named)

    def device(self, unit: str) -> str:
        """Return the name of the physical device of a unit."""
        device, _ = _split(unit.partition("::")[0])
        return self.by_id.get(device, device)

    def shorten(self, text: str) -> str:
        """Put names into a text in place of ids."""
        for pattern in (_UUID, _ADDRESS):
            text = pattern.sub(lambda found: self.by_id.get(found[0], found[0]), text)
        return text

    def listed(self, units: Iterable[str]) -> str:
        """Return the names of units, in the machine's order."""
        return ", ".join(self.shorten(unit) for unit in self.in_order(units))

    def in_order(self, units: Iterable[str]) -> list[str]:
        """Sort units by the machine's order, then by share."""
        return sorted(units, key=self.order)

    def order(self, unit: str) -> tuple[int, str, int, int]:
        """Sort key of a unit or a device: unknown devices come last."""
        whole, _, share = unit.partition("::")
        device, part = _split(whole)
        known = list(self.by_id)
        place = known.index(device) if device in self.by_id else len(known)
        return place, device, part, int(share) if share.isdigit() else -1


def _split(device: str) -> tuple[str, int]:
    """A partition's GPU and its number; -1 for a whole device."""
    match = _PART.fullmatch(device)
    return (match[1], int(match[2])) if match else (device, -1)
