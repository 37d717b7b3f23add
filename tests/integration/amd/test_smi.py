"""AMD's management library, as it is where it is missing, broken, hanging, crashing, or right."""

import logging
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.events import Symptom
from deviceplugin.vendors.amd.smi import SmiSource

FIRST = "0000:05:00.0"

GOOD = """
def amdsmi_init(): print("noise on standard output")
def amdsmi_shut_down(): pass
def amdsmi_get_processor_handles(): return ["0000:05:00.0", "0000:26:00.0"]
def amdsmi_get_gpu_device_bdf(handle): return handle.upper()
def amdsmi_get_gpu_total_ecc_count(handle):
    import pathlib
    return {"uncorrectable_count": int(pathlib.Path(__file__).with_name("errors").read_text())}
def amdsmi_get_gpu_bad_page_info(handle): return "No bad pages found."
"""

BAD = {
    "no library": "raise KeyError('libamd_smi.so')",
    "another version": "raise AttributeError('undefined symbol: amdsmi_x')",
    "no module": "raise ImportError('no')",
    "cannot load": "raise OSError('libamd_smi.so: cannot open')",
    "hangs": "import time; time.sleep(60)",
    "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "exits": "import sys; sys.exit(0)",
    "no driver": "def amdsmi_init(): raise RuntimeError('34 DRIVER_NOT_LOADED')",
    "answers nonsense": GOOD.replace("handle.upper()", "b'\\xff'"),
}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a library in front of whatever is installed; the child looks where we look."""

    def put(text: str) -> Path:
        folder = tmp_path / "lib"
        folder.mkdir(exist_ok=True)
        (folder / "amdsmi.py").write_text(text)
        (folder / "errors").write_text("0")
        monkeypatch.syspath_prepend(str(folder))
        return folder

    return put


def _source(amd: Any) -> SmiSource:
    return SmiSource(sysfs=amd.options.sysfs, health=amd.health)


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_is_wrong_with_it_is_told_and_harms_nobody(
    amd: Any,
    library: Callable[[str], Path],
    until: Callable[..., bool],
    caplog: pytest.LogCaptureFixture,
    text: str,
) -> None:
    """Each failure is one line with its reason, no verdict, and no end of the thread."""
    library(text)
    with caplog.at_level(logging.INFO):
        amd.start(_source(amd), amdsmi=True)
        assert until(lambda: [r for r in caplog.records if "of no use" in r.message])
    assert not amd.events
    assert amd.threads[0].is_alive()
    assert "amdsmi" not in sys.modules


def test_errors_that_sysfs_does_not_show(
    amd: Any, library: Callable[[str], Path], until: Callable[..., bool]
) -> None:
    """A GPU without counters of its own is judged by the library's, by their delta."""
    shutil.rmtree((amd.options.sysfs / "bus/pci/devices" / FIRST).resolve() / "ras")
    folder = library(GOOD)
    amd.start(_source(amd), amdsmi=True)
    assert until(lambda: "amd-smi" in amd.health.condemned or amd.health.condemned)
    assert not amd.events
    (folder / "errors").write_text("2")
    assert amd.sees(Symptom, device=FIRST, kind="ras-total")
    # The second GPU has counters in sysfs, which the poll reads.
    assert {event.device for event in amd.events if isinstance(event, Symptom)} == {FIRST}


def test_not_asked_without_links(
    amd: Any, until: Callable[..., bool], caplog: pytest.LogCaptureFixture
) -> None:
    """Where KFD has no links some versions crash, so the library is not even started."""
    nodes = amd.options.sysfs / "class/kfd/kfd/topology/nodes"
    shutil.rmtree(nodes / "2/io_links")
    with caplog.at_level(logging.INFO):
        amd.start(_source(amd), amdsmi=True)
        assert until(lambda: any("no links" in str(r.__dict__) for r in caplog.records))


def test_not_asked_unless_wanted(amd: Any, until: Callable[..., bool]) -> None:
    """Off by default, and switched on without a restart."""
    amd.start(_source(amd))
    assert not until(lambda: amd.health.condemned, 0.3)
    amd.health.configure(amd.health.flags.__class__(amdsmi=True, exporter_socket=""))
