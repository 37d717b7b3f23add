"""Writes the parts of /sys and /dev that vendors look at, for a simulated machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deviceplugin.simulation.machine import Gpu, Machine

_CONTROL_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_VENDOR = "0x10de"
_CLASS = "0x030200"  # 3D controller


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The file trees of one machine.

    Attributes:
        sysfs: stands for /sys.
        devfs: stands for /dev; nodes are empty files.
        machine: what is in them.

    """

    sysfs: Path
    devfs: Path
    machine: Machine

    def write_node(self) -> None:
        """Make both trees without any GPU."""
        self.devfs.mkdir(parents=True, exist_ok=True)
        self._write_numa()
        (self.sysfs / "bus/pci/devices").mkdir(parents=True, exist_ok=True)

    def write(self) -> None:
        """Make both trees."""
        self.write_node()
        nvidia = self.machine.nvidia
        if nvidia is None:
            return
        for name in _CONTROL_NODES:
            (self.devfs / name).touch()
        for gpu in nvidia.gpus:
            (self.devfs / f"nvidia{gpu.minor}").touch()
            self.plug(gpu.index)

    def plug(self, index: int) -> None:
        """Show a GPU on the PCI bus: complete from the moment on at which it is there."""
        gpu = self._gpu(index)
        device = self.sysfs / "devices" / _root(gpu) / gpu.pci_address
        write(device, _pci_files(gpu))
        link = self._on_bus(gpu)
        if not link.is_symlink():
            link.symlink_to(Path("../../../devices") / _root(gpu) / gpu.pci_address)

    def unplug(self, index: int) -> None:
        """Take a GPU off the PCI bus."""
        self._on_bus(self._gpu(index)).unlink(missing_ok=True)

    def _gpu(self, index: int) -> Gpu:
        if self.machine.nvidia is None:
            raise LookupError(index)
        return self.machine.nvidia.gpus[index]

    def _on_bus(self, gpu: Gpu) -> Path:
        return self.sysfs / "bus/pci/devices" / gpu.pci_address

    def _write_numa(self) -> None:
        folder = self.sysfs / "devices/system/node"
        ids = ",".join(str(node.id) for node in self.machine.numa)
        with_cpus = ",".join(str(node.id) for node in self.machine.numa if node.cpus)
        write(folder, {"online": ids, "possible": ids, "has_cpu": with_cpus})
        for node in self.machine.numa:
            write(folder / f"node{node.id}", {"cpulist": node.cpus})


def _root(gpu: Gpu) -> str:
    """A PCI root for each socket."""
    return f"pci0000:{0x20 * (gpu.numa_node or 0):02x}"


def _pci_files(gpu: Gpu) -> dict[str, str]:
    return {
        "vendor": _VENDOR,
        "device": gpu.pci_device,
        "class": _CLASS,
        "numa_node": str(-1 if gpu.numa_node is None else gpu.numa_node),
    }


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write attributes into a folder, as the kernel ends them: with a line feed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
