"""A vendor's devices on the PCI bus as sysfs shows them, driver or not, and NUMA nodes."""

from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin import sysfs


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Which functions of the bus are a vendor's devices.

    Attributes:
        vendor: PCI vendor id, ``0x10de``.
        classes: beginnings of class codes, ``0x0302``.
        others: drivers that keep a device from the vendor's own on purpose, for a virtual
            machine or a desktop.

    """

    vendor: str
    classes: tuple[str, ...]
    others: frozenset[str]


@dataclass(slots=True, kw_only=True)
class PciBus:
    """The PCI devices under a sysfs root; for one thread.

    An address is looked into once for as long as it is there: a bus has hundreds of
    devices, and a scan comes every few seconds.
    """

    root: Path
    kind: Kind
    _known: dict[str, bool] = field(default_factory=dict)

    @property
    def devices(self) -> Path:
        """Folder of all devices on the bus."""
        return self.root / "bus/pci/devices"

    def addresses(self) -> frozenset[str] | None:
        """Those that the vendor's driver should show; None when the bus cannot be read."""
        if not self.devices.is_dir():
            return None
        self._known = {
            address: self._known[address] if address in self._known else self._is_ours(address)
            for address in sysfs.entries(self.devices)
        }
        ours = (address for address, is_ours in self._known.items() if is_ours)
        return frozenset(address for address in ours if not self._is_withheld(address))

    def path(self, address: str) -> tuple[str, ...]:
        """PCI root and bridges above a device, outermost first; () where it cannot be read."""
        try:
            parts = (self.devices / address).resolve(strict=True).parts
        except OSError:
            return ()
        roots = [place for place, part in enumerate(parts) if part.startswith("pci")]
        return parts[roots[-1] : -1] if roots else ()

    def numa_node(self, address: str) -> int | None:
        """The node next to a device; None when unknown, or when it has no CPUs here."""
        return self.usable_node(sysfs.number(self.devices / address / "numa_node"))

    def usable_node(self, node: int | None) -> int | None:
        """A NUMA node, if it exists and has CPUs here; -1 is the firmware not saying."""
        if node is None or node < 0:
            return None
        nodes = self.root / "devices/system/node"
        if nodes.is_dir() and not sysfs.text(nodes / f"node{node}" / "cpulist"):
            return None
        return node

    def _is_ours(self, address: str) -> bool:
        # The kernel fills a device's folder before it links it into the bus.
        folder = self.devices / address
        if sysfs.text(folder / "vendor") != self.kind.vendor:
            return False
        return sysfs.text(folder / "class").startswith(self.kind.classes)

    def _is_withheld(self, address: str) -> bool:
        folder = self.devices / address
        if (folder / "physfn").exists():
            return True  # a virtual function belongs to the guest that it is given to
        try:
            return (folder / "driver").readlink().name in self.kind.others
        except OSError:
            return False
