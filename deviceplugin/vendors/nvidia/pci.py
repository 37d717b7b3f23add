"""Which functions on the PCI bus are NVIDIA GPUs that NVML should show."""

from pathlib import Path

from deviceplugin.pci import Kind, PciBus

GPUS = Kind(
    vendor="0x10de",
    classes=("0x0300", "0x0302"),  # VGA controller, 3D controller
    others=frozenset({"vfio-pci", "nouveau", "pci-stub"}),
)


def bus(root: Path) -> PciBus:
    """NVIDIA's GPUs under a sysfs root."""
    return PciBus(root=root, kind=GPUS)
