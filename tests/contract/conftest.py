"""Every vendor that this installation has, and a sample, each on machines of its own."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deviceplugin import backend, vendors
from deviceplugin.backend import Backend, BackendOptions
from deviceplugin.simulation import driver

SAMPLES = Path(__file__).parent / "vendors"

MakeOptions = Callable[[Path], BackendOptions]


@dataclass(frozen=True, kw_only=True)
class Machines:
    """How a vendor's machines are made below a folder.

    Attributes:
        whole: with several devices.
        empty: without the vendor's driver.

    """

    whole: MakeOptions
    empty: MakeOptions


def _sample(folder: Path) -> BackendOptions:
    (folder / "dev/sample").mkdir(parents=True)
    for number in range(11):
        (folder / f"dev/sample/{number}").write_text("good")
    return _bare(folder)


def _bare(folder: Path) -> BackendOptions:
    return BackendOptions(
        sysfs=folder / "sys",
        devfs=folder / "dev",
        procfs=folder / "proc",
        cdi_dirs=(folder / "cdi",),
        driver_root=folder / "driver",
        poll_seconds=0.05,
    )


def _partitioned(folder: Path) -> BackendOptions:
    """Two AMD GPUs in eight parts each: eight GPUs would be thousands of files for each test."""
    machine = folder / "parts.yaml"
    machine.write_text("amd: {gpus: {count: 2, partition: CPX/NPS4, hives: [0, 0]}}")
    return driver.prepare(str(machine), folder / "m", vendor="amd", poll_seconds=0.05)


MACHINES = {
    "nvidia": Machines(
        whole=lambda folder: driver.prepare("h100x16", folder, poll_seconds=0.05),
        empty=lambda folder: driver.prepare("none", folder, poll_seconds=0.05),
    ),
    "amd": Machines(
        whole=_partitioned,
        empty=lambda folder: driver.prepare("none", folder, vendor="amd", poll_seconds=0.05),
    ),
    "sample": Machines(whole=_sample, empty=_bare),
}


@pytest.fixture(params=(*backend.known(), "sample"))
def vendor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name a vendor; the sample is found where the real ones are."""
    monkeypatch.setattr(vendors, "__path__", [*vendors.__path__, str(SAMPLES)])
    yield request.param
    sys.modules.pop("deviceplugin.vendors.sample", None)
    vars(vendors).pop("sample", None)


@pytest.fixture
def machines(vendor: str) -> Machines:
    """Machines of the vendor."""
    assert vendor in MACHINES, f"tell tests/contract/conftest.py how to make a machine of {vendor}"
    return MACHINES[vendor]


@pytest.fixture
def options(machines: Machines, tmp_path: Path) -> BackendOptions:
    """Options on a whole machine."""
    return machines.whole(tmp_path)


@pytest.fixture
def subject(vendor: str, options: BackendOptions) -> Backend:
    """The backend under test, on a whole machine."""
    return backend.load(vendor).create(options)


@pytest.fixture
def bare(vendor: str, machines: Machines, tmp_path: Path) -> Backend:
    """The backend under test, on a machine without its driver."""
    return backend.load(vendor).create(machines.empty(tmp_path / "empty"))
