"""A driver in memory behind the door, and small trees of files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deviceplugin.backend import BackendOptions
from deviceplugin.model import Device, DeviceId, ResourceName
from deviceplugin.vendors.nvidia.door import Code, EventSet, GpuInfo, NvmlError


def gpu(index: int, **changes: object) -> GpuInfo:
    """A GPU as NVML shows it."""
    facts: dict[str, object] = {
        "index": index,
        "uuid": f"GPU-{index}",
        "minor": index,
        "name": "NVIDIA H100 80GB HBM3",
        "pci_address": f"0000:{16 + index:02x}:00.0",
        "memory_mib": 81559,
    }
    return GpuInfo(**(facts | changes))


@dataclass(kw_only=True)
class MemoryNvml:
    """The door over a list: what stands in ``errors`` is raised by the call of that name."""

    gpus: list[GpuInfo] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    links: dict[str, dict[str, int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    opened: int = 0
    is_open: bool = False

    def fail(self, call: str) -> None:
        """Raise what was asked for."""
        if call in self.errors:
            raise NvmlError(self.errors[call], call)

    def open(self) -> None:
        """Open."""
        self.fail("open")
        self.opened += not self.is_open
        self.is_open = True

    def close(self) -> None:
        """Close."""
        self.is_open = False

    def library(self) -> str:
        """Return a name while open."""
        return "memory" if self.is_open else ""

    def driver_version(self) -> str:
        """Return a version."""
        return "580.95.05"

    def count(self) -> int:
        """Return the number of GPUs."""
        self.fail("count")
        return len(self.gpus)

    def gpu(self, index: int) -> GpuInfo:
        """Return one GPU."""
        self.fail(f"gpu {index}")
        return self.gpus[index]

    def check(self, uuid: str) -> None:
        """Answer for a GPU."""
        self.fail(uuid)

    def nvlinks(self, uuid: str) -> dict[str, int]:
        """Return the links of a GPU."""
        self.asked.append(uuid)
        self.fail(f"nvlinks {uuid}")
        return self.links.get(uuid, {})

    def recovery_action(self, uuid: str) -> int | None:
        """Ask for nothing."""
        self.fail(f"recovery {uuid}")
        return None

    def events(self, uuids: Sequence[str]) -> EventSet:
        """Have none."""
        raise NvmlError(Code.NOT_SUPPORTED, f"events {uuids}")


@dataclass(frozen=True, kw_only=True)
class Node:
    """Folders of a machine under test."""

    root: Path

    @property
    def options(self) -> BackendOptions:
        """Options that look only here."""
        return BackendOptions(
            sysfs=self.root / "sys",
            devfs=self.root / "dev",
            cdi_dirs=(self.root / "etc/cdi", self.root / "run/cdi"),
        )

    def write(self, path: str, text: str = "") -> Path:
        """Write a file and its folders."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def pci(self, address: str, **files: str) -> None:
        """Plug a device into the bus."""
        facts = {"vendor": "0x10de", "class": "0x030200", "numa_node": "-1"} | files
        for name, text in facts.items():
            self.write(f"sys/bus/pci/devices/{address}/{name}", text + "\n")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """An empty machine."""
    return Node(root=tmp_path)


@pytest.fixture
def nvml() -> MemoryNvml:
    """Four GPUs."""
    return MemoryNvml(gpus=[gpu(n) for n in range(4)])


@pytest.fixture
def make_gpu() -> Callable[..., GpuInfo]:
    """Make a GPU as NVML shows it."""
    return gpu


@pytest.fixture
def make_device() -> Callable[..., Device]:
    """Make a GPU as discovery shows it."""

    def make(index: int, **changes: object) -> Device:
        facts: dict[str, object] = {
            "id": DeviceId(f"GPU-{index}"),
            "resource": ResourceName("nvidia.com/gpu"),
            "index": index,
            "nodes": ("/dev/nvidiactl", "/dev/nvidia-uvm", f"/dev/nvidia{index}"),
            "attributes": {"minor": str(index)},
        }
        return Device(**(facts | changes))

    return make
