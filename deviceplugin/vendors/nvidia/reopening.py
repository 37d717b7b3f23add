"""When to open NVML anew although it works: it shows no GPU that was plugged in since."""

from collections.abc import Callable
from dataclasses import dataclass

from deviceplugin.events import Scan


@dataclass(slots=True, kw_only=True)
class Reopening:
    """Decides from the last scan. Opening takes seconds without persistence mode.

    Attributes:
        first, limit: seconds until the next try while the bus shows more than NVML;
            doubles, for a GPU may never come, and starts over when the bus changes.

    """

    clock: Callable[[], float]
    first: float = 2.0
    limit: float = 300.0
    _unshown: frozenset[str] = frozenset()
    _pause: float = 0.0
    _at: float = 0.0

    def scanned(self, scan: Scan) -> None:
        """Take in a scan."""
        shown = {device.pci_address for device in scan.devices}
        unshown = frozenset(address for address in scan.bus or () if address not in shown)
        if unshown != self._unshown:
            self._unshown = unshown
            self._pause = self.first
            self._at = self.clock() + self._pause

    def due(self) -> bool:
        """Whether to open anew before the next scan; asking counts as doing it."""
        if not self._unshown or self.clock() < self._at:
            return False
        self._pause = min(self._pause * 2, self.limit)
        self._at = self.clock() + self._pause
        return True
