"""When the first list may go out: too early a list costs pods, none at all costs more.

A list without a device that a pod holds makes the kubelet reject that pod at its next
admission, for good; a list made before we know who holds what might drop an id in use.
"""

from dataclasses import dataclass

from deviceplugin.holders import Holders
from deviceplugin.inventory import Inventory
from deviceplugin.model import BackendState

HOLDERS_WAIT = 1.0
"""Seconds for the first PodResources answer; without one nothing is dropped, so no longer wait."""

_NOT_ASKED = Holders().why

_TRYING = frozenset({BackendState.STARTING, BackendState.READY})


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstList:
    """The rule, with when the process started and how long the PCI bus is believed."""

    started: float
    bus_wait: float

    def ends_by_time(self, now: float) -> bool:
        """Whether some wait may end without an event. Pure."""
        return now < self.started + max(self.bus_wait, HOLDERS_WAIT) + 1.0

    def waits_for(self, inventory: Inventory, now: float) -> str:
        """Why the first list is not made yet; "" when it may be. Pure."""
        if inventory.config is None:
            return "a valid config: none was loaded and none is kept"
        if now < self.started + self.bus_wait:
            return self._hardware(inventory) or self._holders(inventory, now)
        return ""

    def _hardware(self, inventory: Inventory) -> str:
        if not inventory.scanned:
            return self._driver(inventory)
        missing = len(inventory.bus or ()) - len(inventory.devices)
        if missing > 0:
            return f"{missing} more devices that the PCI bus shows and the driver does not"
        return ""

    def _driver(self, inventory: Inventory) -> str:
        # Without a known id there is nothing that a pod could hold, so nothing to wait for.
        if inventory.known or inventory.backend in _TRYING:
            return (
                f"the driver ({inventory.backend.value}): {len(inventory.known)} devices are known"
            )
        return ""

    def _holders(self, inventory: Inventory, now: float) -> str:
        asked = inventory.holders.known or inventory.holders.why != _NOT_ASKED
        if asked or not inventory.known or now > self.started + HOLDERS_WAIT:
            return ""
        return "who holds what"
