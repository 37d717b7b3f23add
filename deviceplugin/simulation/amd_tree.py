"""Writes and changes what amdgpu shows of its GPUs in /sys and /dev, for a simulated machine.

The layout is the kernel's: KFD's topology, the module with its driver, PCI functions with
their ``drm`` folders, platform devices for partitions. As in the kernel more of the latter
exist than are in use, and only KFD's nodes tell which are.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from deviceplugin.simulation.amd_kfd import Variant, nodes
from deviceplugin.simulation.amd_links import Unit, units
from deviceplugin.simulation.machine import BLOCK, AmdGpu, Machine
from deviceplugin.simulation.sysfs import write
from deviceplugin.simulation.timeline import BLOCKS

_VENDOR = "0x1002"
_ACCELERATOR, _DISPLAY = "0x120000", "0x030000"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNow:
    """One GPU at one moment; ``errors`` are uncorrectable ones by block."""

    gpu: AmdGpu
    plugged: bool = True
    errors: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class AmdTree:
    """The trees of one machine's AMD GPUs; for one thread.

    Attributes:
        sysfs: stands for /sys.
        devfs: stands for /dev; nodes are empty files.

    """

    sysfs: Path
    devfs: Path
    machine: Machine
    variant: Variant = field(default_factory=Variant)
    gpus: dict[int, GpuNow] = field(default_factory=dict)
    loaded: bool = False
    generation: int = 1
    _written: dict[tuple[Unit, ...], str] = field(default_factory=dict)

    @property
    def kfd(self) -> Path:
        """Folder of KFD's topology."""
        return self.sysfs / "class/kfd/kfd/topology"

    def write(self) -> None:
        """Make the trees."""
        self.devfs.mkdir(parents=True, exist_ok=True)
        (self.sysfs / "bus/pci/devices").mkdir(parents=True, exist_ok=True)
        amd = self.machine.amd
        if amd is None:
            return
        self.gpus = {gpu.index: GpuNow(gpu=gpu) for gpu in amd.gpus}
        for now in self.gpus.values():
            self._show(now)
        self.load()

    def load(self) -> None:
        """Load the driver: it shows all GPUs that are plugged in."""
        amd = self.machine.amd
        if amd is None or self.loaded:
            return
        self.loaded = True
        for now in self._plugged():
            self._bind(now.gpu)
        self._topology()
        (self.devfs / "kfd").touch()
        # Last: from now on the rest is looked for.
        write(
            self.sysfs / "module/amdgpu",
            {"initstate": "live", "version": amd.driver, "srcversion": "0" * 24},
        )

    def unload(self) -> None:
        """Unload the driver; the PCI bus still shows the GPUs."""
        self.loaded = False
        shutil.rmtree(self.sysfs / "module/amdgpu", ignore_errors=True)
        shutil.rmtree(self.sysfs / "class/kfd", ignore_errors=True)
        self._written.clear()
        for now in self.gpus.values():
            self._unbind(now.gpu)
        (self.devfs / "kfd").unlink(missing_ok=True)
        shutil.rmtree(self.sysfs / "bus/pci/drivers/amdgpu", ignore_errors=True)

    def plug(self, index: int) -> None:
        """Put a GPU in, as good as new."""
        now = GpuNow(gpu=self.gpus[index].gpu)
        self.gpus[index] = now
        self._show(now)
        if self.loaded:
            self._bind(now.gpu)
            self._topology()

    def unplug(self, index: int) -> None:
        """Take a GPU out."""
        now = replace(self.gpus[index], plugged=False)
        self.gpus[index] = now
        if self.loaded:
            self._topology()
        self._unbind(now.gpu)
        (self.sysfs / "bus/pci/devices" / now.gpu.pci_address).unlink(missing_ok=True)

    def repartition(self, index: int | None, compute: str, memory: str) -> None:
        """Divide one GPU, or all that can be divided, anew."""
        for number, now in self.gpus.items():
            if now.gpu.compute and index in (None, number):
                gpu = replace(now.gpu, compute=compute, memory=memory)
                self.gpus[number] = replace(now, gpu=gpu)
                write(self._device(gpu), _mode_files(gpu))
        if self.loaded:
            self._topology()

    def errors(self, index: int, block: str, count: int) -> None:
        """Let a block of a GPU have counted so many uncorrectable errors."""
        now = self.gpus[index]
        self.gpus[index] = replace(now, errors={**now.errors, block: count})
        write(self._device(now.gpu) / "ras", {f"{block}_err_count": f"ue: {count}\nce: 0"})

    def heal(self, index: int) -> None:
        """Let a GPU count from zero, as after a reset."""
        for block in self.gpus[index].errors:
            self.errors(index, block, 0)

    def _plugged(self) -> list[GpuNow]:
        return [now for now in self.gpus.values() if now.plugged]

    def _device(self, gpu: AmdGpu) -> Path:
        return self.sysfs / "devices" / _place(gpu)

    def _show(self, now: GpuNow) -> None:
        folder = self._device(now.gpu)
        write(folder, self._files(now.gpu))
        write(folder, _mode_files(now.gpu))
        ras = {f"{block}_err_count": "ue: 0\nce: 0" for block in BLOCKS}
        write(folder / "ras", {"features": "feature mask: 0x7fff", "gpu_vram_bad_pages": "", **ras})
        link = self.sysfs / "bus/pci/devices" / now.gpu.pci_address
        if not link.is_symlink():
            link.symlink_to(Path("../../../devices") / _place(now.gpu))

    def _files(self, gpu: AmdGpu) -> dict[str, str]:
        numa = -1 if gpu.numa_node is None or self.variant.no_numa else gpu.numa_node
        accelerator = gpu.hive is not None or bool(gpu.compute)
        return {
            "vendor": _VENDOR,
            "device": gpu.pci_device,
            "class": _ACCELERATOR if accelerator else _DISPLAY,
            "revision": "0x00",
            "subsystem_vendor": _VENDOR,
            "subsystem_device": gpu.pci_device,
            "numa_node": str(numa),
            "unique_id": gpu.unique_id,
            "product_name": gpu.model,
            "serial_number": f"SIM{gpu.index:08d}",
            "vbios_version": "113-SIM-001",
            "mem_info_vram_total": str(gpu.memory_mib * _MIB),
            "mem_info_vram_used": "0",
            "pcie_replay_count": "0",
            "current_link_speed": "32.0 GT/s PCIe",
            "current_link_width": "16",
            "max_link_speed": "32.0 GT/s PCIe",
            "max_link_width": "16",
            "uevent": f"DRIVER=amdgpu\nPCI_SLOT_NAME={gpu.pci_address}",
        }

    def _bind(self, gpu: AmdGpu) -> None:
        device = self._device(gpu)
        self._drm(device, gpu, 0)
        for number in range(1, BLOCK if gpu.compute else 1):
            self._drm(self._partition(gpu, number), gpu, number)
        link = device / "driver"
        if not link.is_symlink():
            link.symlink_to(self.sysfs / "bus/pci/drivers/amdgpu")
        for folder in ("bus/pci/drivers/amdgpu", "module/amdgpu/drivers/pci:amdgpu"):
            entry = self.sysfs / folder / gpu.pci_address
            entry.parent.mkdir(parents=True, exist_ok=True)
            if not entry.is_symlink():
                entry.symlink_to(device)

    def _unbind(self, gpu: AmdGpu) -> None:
        for folder in ("bus/pci/drivers/amdgpu", "module/amdgpu/drivers/pci:amdgpu"):
            (self.sysfs / folder / gpu.pci_address).unlink(missing_ok=True)
        (self._device(gpu) / "driver").unlink(missing_ok=True)
        for number in range(BLOCK):
            device = self._partition(gpu, number) if number else self._device(gpu)
            shutil.rmtree(device / "drm", ignore_errors=True)
            for name in _nodes(gpu, number):
                (self.devfs / "dri" / name).unlink(missing_ok=True)
                (self.sysfs / "class/drm" / name).unlink(missing_ok=True)

    def _partition(self, gpu: AmdGpu, number: int) -> Path:
        name = f"amdgpu_xcp{self.variant.separator}{gpu.index * (BLOCK - 1) + number - 1}"
        return self.sysfs / "devices/platform" / name

    def _drm(self, device: Path, gpu: AmdGpu, number: int) -> None:
        (self.devfs / "dri").mkdir(parents=True, exist_ok=True)
        (self.sysfs / "class/drm").mkdir(parents=True, exist_ok=True)
        for name in _nodes(gpu, number):
            minor = name.removeprefix("card").removeprefix("renderD")
            write(device / "drm" / name, {"dev": f"226:{minor}"})
            (self.devfs / "dri" / name).touch()
            link = self.sysfs / "class/drm" / name
            if not link.is_symlink():
                link.symlink_to(device / "drm" / name)

    def _topology(self) -> None:
        """Show KFD's nodes anew; the new set appears whole, and then the generation rises.

        Sets that were shown before are kept: 64 partitions are thousands of files, and the
        time to write them must not count as the daemon's.
        """
        self.generation += 1
        shown = self._shown()
        name = self._written.setdefault(shown, f"nodes.{self.generation}")
        folder = self.kfd / name
        if not folder.is_dir():
            folder.mkdir(parents=True)
            cpus = max(1, len(self.machine.numa))
            for number, files in enumerate(nodes(shown, cpus, self.variant)):
                _write_node(folder / str(number), files)
        following = self.kfd / "nodes.next"
        following.symlink_to(name)
        following.replace(self.kfd / "nodes")
        write(self.kfd, {"generation_id": str(self.generation), "system_properties": ""})

    def _shown(self) -> tuple[Unit, ...]:
        lost = self.variant.lost
        return tuple(
            unit
            for now in self._plugged()
            for unit in units(now.gpu)
            if unit.number not in lost or not now.gpu.compute
        )


def _write_node(folder: Path, files: Mapping[str, str]) -> None:
    for place, text in files.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")


def _place(gpu: AmdGpu) -> Path:
    domain = gpu.pci_address[:4]
    root = 0x80 if gpu.numa_node else 0
    bridge = f"{domain}:{root:02x}:{1 + gpu.index:02x}.1"
    return Path(f"pci{domain}:{root:02x}") / bridge / gpu.pci_address


def _mode_files(gpu: AmdGpu) -> dict[str, str]:
    if not gpu.compute:
        return {}
    return {
        "current_compute_partition": gpu.compute,
        "available_compute_partition": "SPX, DPX, QPX, CPX",
        "current_memory_partition": gpu.memory,
        "available_memory_partition": "NPS1, NPS4",
    }


def _nodes(gpu: AmdGpu, number: int) -> tuple[str, str]:
    return f"card{gpu.card + number}", f"renderD{gpu.render + number}"
