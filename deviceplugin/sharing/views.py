"""The list as the RPCs need it: units with their health and NUMA node, and their devices."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deviceplugin.config.rules import Config
from deviceplugin.faults import against
from deviceplugin.inventory import GONE, Inventory
from deviceplugin.model import (
    Device,
    DeviceId,
    Fault,
    ResourceName,
    ResourceView,
    Unit,
    Views,
)
from deviceplugin.sharing.ids import unit_id
from deviceplugin.sharing.listing import Listing, Shelf
from deviceplugin.sharing.plan import Plan
from deviceplugin.sharing.vendor import Deliver


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What overlays the plan; each text is the reason, "" means nothing is wrong."""

    inventory: Inventory
    verdict: Mapping[DeviceId, Fault]
    held_back: Mapping[DeviceId, str]

    def of(self, device: DeviceId) -> str:
        """Why no unit of this device can work."""
        if self.inventory.backend in GONE:
            return _stated(self.inventory.backend.value, self.inventory.backend_detail)
        # A lost GPU is also missing from the scan; people want to read why.
        wrong = self._fault(device) or self._absent(device)
        why = self.held_back.get(device)
        return wrong or (f"held back: {why}" if why else "")

    def _absent(self, device: DeviceId) -> str:
        if device in self.inventory.devices:
            return ""
        known = self.inventory.known.get(device)
        if known is None:
            return ""  # its mark says that it is unknown
        if known.device.pci_address in (self.inventory.bus or ()):
            return "missing: the PCI bus shows the device, its driver does not"
        return "missing: the device is not found"

    def _fault(self, device: DeviceId) -> str:
        known = self.inventory.known.get(device)
        fault = against(known.device, self.verdict) if known else self.verdict.get(device)
        return _stated(fault.kind, fault.detail) if fault else ""


def views(plan: Plan, listing: Listing, inventory: Inventory, delivery: Deliver) -> Views:
    """Overlay health and topology on the list; a resource with nothing left stays. Pure."""
    config = inventory.config or Config()
    order = plan.devices
    health = Health(inventory=inventory, verdict=inventory.verdict(), held_back=plan.held_back)
    shown: dict[ResourceName, ResourceView] = {}
    for name, row in listing.shelves.items():
        known = {each: order[each] for each in order if each in row}
        here = {each: known[each] for each in known if each in inventory.devices}
        delivered = delivery(config, name, tuple(here.values()))
        # Once one unit has a node the kubelet never counts those without: all or none.
        has_numa = all(each.numa_node is not None for each in (here or known).values())
        overlay = _Overlay(health=health, unmet=delivered.unmet, has_numa=has_numa)
        shown[name] = ResourceView(
            name=name,
            units=tuple(overlay.units(row, known)),
            devices=here,
            delivery=delivered,
            rules=plan.rules(name),
            links=inventory.links,
        )
    return shown


@dataclass(frozen=True, slots=True, kw_only=True)
class _Overlay:
    health: Health
    unmet: str
    has_numa: bool

    def units(
        self, row: Mapping[DeviceId, Shelf], known: Mapping[DeviceId, Device]
    ) -> Iterator[Unit]:
        for each, device in known.items():
            yield from self._of(each, row[each], device.numa_node if self.has_numa else None)
        # Devices that nobody knows come last: they have no index.
        for each in sorted(set(row) - set(known)):
            yield from self._of(each, row[each], None)

    def _of(self, device: DeviceId, shelf: Shelf, numa_node: int | None) -> Iterator[Unit]:
        physical = self.health.of(device)
        for slot in sorted(shelf):
            mark = shelf[slot]
            reason = physical or mark.reason or self.unmet
            yield Unit(
                id=unit_id(device, slot),
                device=device,
                healthy=not reason,
                reason=reason,
                numa_node=numa_node,
            )


def _stated(kind: str, detail: str) -> str:
    return f"{kind}: {detail}" if detail else kind
