"""A real NVIDIA GPU, or the reason why there is none.

Nothing here changes a setting of a GPU, runs a program on it or needs a network. All that
is opened is opened for reading what ``nvidia-smi -q`` reads too; device nodes are opened
and closed again, as any program that lists GPUs does.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deviceplugin.backend import BackendOptions
from deviceplugin.simulation.kubelet import SimulatedKubelet
from deviceplugin.vendors.nvidia import create
from deviceplugin.vendors.nvidia.door import NvmlError
from deviceplugin.vendors.nvidia.nvidia_backend import NvidiaBackend
from deviceplugin.vendors.nvidia.nvml import RealNvml

ROOT = Path(__file__).resolve().parents[2]

LIBRARY = os.environ.get("DEVICEPLUGIN_NVML_LIBRARY")
"""Another library than the loader's, as for the daemon."""

SETTINGS = (
    "persistence_mode",
    "compute_mode",
    "mig_mode",
    "ecc_mode",
    "accounting_mode",
    "applications_clocks",
    "max_clocks",
    "gpu_operation_mode",
)
"""What an administrator sets and what these tests must leave as it is."""


def ask_smi() -> ET.Element:
    """Return what ``nvidia-smi -q -x`` says now."""
    said = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, check=True, timeout=120)
    return ET.fromstring(said.stdout)  # noqa: S314 - our own tool on our own machine


@dataclass(frozen=True, kw_only=True)
class SmiGpu:
    """One GPU in the words of nvidia-smi."""

    element: ET.Element
    index: int

    def text(self, path: str) -> str:
        """Text of an element; "" where there is none."""
        return (self.element.findtext(path) or "").strip()

    @property
    def address(self) -> str:
        """PCI address as sysfs writes it."""
        domain, _, rest = self.element.get("id", "").lower().partition(":")
        return f"{int(domain, 16):04x}:{rest}"

    @property
    def served(self) -> bool:
        """Whether it is to be served whole."""
        divided = self.text("mig_mode/current_mig") == "Enabled"
        return not divided and not self.text("product_name").endswith("DGX Display")

    def settings(self) -> dict[str, str]:
        """Settings of an administrator, as text."""
        found = ((name, self.element.find(name)) for name in SETTINGS)
        return {name: "".join(element.itertext()) for name, element in found if element is not None}


def smi_gpus() -> list[SmiGpu]:
    """Return all GPUs, in the order of their indexes."""
    found = ask_smi().findall("gpu")
    return [SmiGpu(element=element, index=index) for index, element in enumerate(found)]


def _why_not() -> str:
    if not shutil.which("nvidia-smi"):
        return "no nvidia-smi on this machine: these tests need a real NVIDIA GPU"
    door = RealNvml(library=Path(LIBRARY) if LIBRARY else None)
    try:
        door.open()
        number = door.count()
        door.close()
    except NvmlError as error:
        return f"NVML does not answer: {error}"
    return "" if number else "the driver shows no GPU"


@pytest.fixture(scope="session", autouse=True)
def gpu_present() -> None:
    """Skip everything where there is no GPU."""
    why = _why_not()
    if why:
        pytest.skip(why)


@pytest.fixture(scope="session", autouse=True)
def settings_stay(gpu_present: None) -> Iterator[None]:
    """No setting of any GPU differs after the tests."""
    del gpu_present
    before = {gpu.address: gpu.settings() for gpu in smi_gpus()}
    yield
    assert {gpu.address: gpu.settings() for gpu in smi_gpus()} == before


@pytest.fixture(scope="session")
def smi(gpu_present: None) -> list[SmiGpu]:
    """GPUs in the words of nvidia-smi."""
    del gpu_present
    return smi_gpus()


@pytest.fixture
def backend() -> Iterator[NvidiaBackend]:
    """The vendor on this machine."""
    made = create(BackendOptions(library=Path(LIBRARY) if LIBRARY else None))
    assert isinstance(made, NvidiaBackend)
    yield made
    made.door.close()


@dataclass(frozen=True, kw_only=True)
class Served:
    """The daemon on this machine, and the kubelet that it serves."""

    kubelet: SimulatedKubelet
    pid: int
    expected: int


@pytest.fixture(scope="module")
def served(smi: list[SmiGpu]) -> Iterator[Served]:
    """Run the daemon until the kubelet has every GPU that can be served."""
    expected = sum(gpu.served for gpu in smi)
    if not expected:
        pytest.skip("every GPU of this machine is in MIG mode: none is served whole")
    with (
        tempfile.TemporaryDirectory(prefix="dp") as folder,
        SimulatedKubelet(Path(folder)) as kubelet,
    ):
        flags = {
            "--plugin-dir": kubelet.plugin_dir,
            "--pod-resources": kubelet.pod_resources,
            "--state-dir": Path(folder) / "state",
            "--config": Path(folder) / "nvidia.yaml",
        }
        words = [str(word) for pair in flags.items() for word in pair]
        command = [sys.executable, "-m", "deviceplugin", "run", "nvidia", *words]
        process = subprocess.Popen([*command, "--metrics-address="])
        try:
            full = lambda: kubelet.allocatable().get("nvidia.com/gpu") == expected  # noqa: E731 - one use
            # Without persistence mode the driver brings each GPU up first.
            assert kubelet.wait(full, 60), f"{kubelet.allocatable()} instead of {expected}"
            yield Served(kubelet=kubelet, pid=process.pid, expected=expected)
        finally:
            process.terminate()
            assert process.wait(15) == 0


@dataclass(kw_only=True)
class Figures:
    """What was measured, for people and for ``build/hardware.json``."""

    values: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        """Note a figure; names end in their unit."""
        self.values[name] = round(value, 4)


@pytest.fixture(scope="session")
def figures(gpu_present: None, smi: list[SmiGpu]) -> Iterator[Figures]:
    """Collect figures and write them at the end."""
    del gpu_present
    figures = Figures()
    yield figures
    model = smi[0].text("product_name")
    report = {"gpus": len(smi), "model": model, "figures": figures.values}
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build/hardware.json").write_text(json.dumps(report, indent=2) + "\n")
    sys.stderr.write("\n" + json.dumps(report, indent=2) + "\n")
