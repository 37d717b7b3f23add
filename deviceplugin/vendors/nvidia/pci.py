"""NVIDIA's GPUs as sysfs shows them, driver or not: the PCI bus, and NUMA nodes."""

from dataclasses import dataclass, field
from pathlib import Path

_VENDOR = "0x10de"
_CLASSES = ("0x0300", "0x0302")  # VGA controller, 3D controller

_OTHERS_DRIVERS = frozenset({"vfio-pci", "nouveau", "pci-stub"})
"""Drivers that keep a GPU from NVML on purpose, for a virtual machine or a desktop."""


@dataclass(slots=True, kw_only=True)
class PciBus:
    """The PCI devices under a sysfs root.

    An address is looked into once for as long as it is there: a bus has hundreds of
    devices, and a scan comes every few seconds.
    """

    sysfs: Path
    _gpus: dict[str, bool] = field(default_factory=dict)

    def gpus(self) -> frozenset[str] | None:
        """Addresses of the GPUs that NVML should show; None when the bus cannot be read."""
        devices = self.sysfs / "bus/pci/devices"
        try:
            addresses = [path.name for path in devices.iterdir()]
        except OSError:
            return None
        self._gpus = {
            address: self._gpus[address] if address in self._gpus else _is_gpu(devices / address)
            for address in addresses
        }
        gpus = (address for address, is_gpu in self._gpus.items() if is_gpu)
        return frozenset(gpu for gpu in gpus if not _is_withheld(devices / gpu))

    def path(self, address: str) -> tuple[str, ...]:
        """PCI root and bridges above a device, outermost first; () where it cannot be read."""
        try:
            parts = (self.sysfs / "bus/pci/devices" / address).resolve(strict=True).parts
        except OSError:
            return ()
        roots = [place for place, part in enumerate(parts) if part.startswith("pci")]
        return parts[roots[-1] : -1] if roots else ()

    def numa_node(self, address: str) -> int | None:
        """The node next to a device; None when unknown, or when it has no CPUs here."""
        text = _read(self.sysfs / "bus/pci/devices" / address / "numa_node")
        if not text.isdigit():
            return None  # unreadable, or -1: the firmware does not say
        nodes = self.sysfs / "devices/system/node"
        if nodes.is_dir() and not _read(nodes / f"node{text}" / "cpulist"):
            return None
        return int(text)


def _is_gpu(device: Path) -> bool:
    # The kernel fills a device's folder before it links it into the bus.
    return _read(device / "vendor") == _VENDOR and _read(device / "class").startswith(_CLASSES)


def _is_withheld(device: Path) -> bool:
    if (device / "physfn").exists():
        return True  # a virtual function belongs to the guest that it is given to
    try:
        return (device / "driver").readlink().name in _OTHERS_DRIVERS
    except OSError:
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
