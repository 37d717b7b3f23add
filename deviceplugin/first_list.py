"""When the first list may go out: too early a list costs pods, none at all costs more.

A list without a device that a pod holds makes the kubelet reject that pod at its next
admission, for good; a list made before we know who holds what might drop an id in use.
"""

from dataclasses import dataclass

from deviceplugin.inventory import Inventory
from deviceplugin.model import BackendState

HOLDERS_WAIT = 1.0
"""Seconds for the first PodResources answer; without one nothing is dropped, so no longer wait."""

_TRYING = frozenset({BackendState.STARTING, BackendState.READY})


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstList:
    """The rule, with when the process started and how long the PCI bus is believed."""

    started: float
    bus_wait: float

    def waits_for(self, inventory: Inventory, now: float) -> str:
        """Why the first list is not made yet; "" when it may be. Pure."""
        if inventory.config is None:
            return "a valid config: none was loaded and none is kept"
        if now < self.started + self.bus_wait:
            return self._hardware(inventory) or self._holders(inventory, now)
        return ""
