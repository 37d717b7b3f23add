"""The true binding over a library with NVML's binary interface."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.vendors.nvidia import nvml as nvml_module
from deviceplugin.vendors.nvidia.door import SWITCH, Code, GpuEvent, GpuInfo, NvmlError
from deviceplugin.vendors.nvidia.library import FOLDERS, Library, resolve_under
from deviceplugin.vendors.nvidia.nvml import RealNvml


def test_reads_every_gpu(fake: Any, nvml: RealNvml) -> None:
    """All that discovery needs of a GPU comes through the C structures intact."""
    fake.change(0, mig=1)
    nvml.open()
    assert nvml.count() == 16
    assert nvml.driver_version() == "580.95.05"
    assert nvml.gpu(0) == GpuInfo(
        index=0,
        uuid="GPU-00000000",
        minor=15,
        name="NVIDIA H100 80GB HBM3",
        pci_address="0000:10:00.0",
        memory_mib=81559,
        mig_enabled=True,
    )
    assert [nvml.gpu(n).minor for n in range(16)] == list(range(15, -1, -1))


def test_what_a_gpu_lacks_is_none(fake: Any, nvml: RealNvml) -> None:
    """No MIG, no memory figure and no recovery action are facts, not errors."""
    fake.change(1, recovery=-1)
    fake.set("fail nvmlDeviceGetMemoryInfo 3 1")
    nvml.open()
    assert nvml.gpu(1).memory_mib is None
    assert nvml.gpu(1).mig_enabled is None
    assert nvml.recovery_action("GPU-00000001") is None
    nvml.check("GPU-00000001")


def test_links_to_switches_are_counted(nvml: RealNvml) -> None:
    """Active NVLinks of a board with switches; one that is down does not count."""
    nvml.open()
    nvml.gpu(0)
    assert nvml.nvlinks("GPU-00000000") == {SWITCH: 17}


def test_links_to_a_neighbour_are_counted(fake: Any, nvml: RealNvml) -> None:
    """NVLinks of a pair lead to the other GPU's PCI address."""
    fake.change(4, name="NVIDIA H100 NVL")
    nvml.open()
    neighbour = nvml.gpu(5).pci_address
    nvml.gpu(4)
    assert nvml.nvlinks("GPU-00000004") == {neighbour: 11}


@pytest.mark.parametrize("code", [3, 13], ids=["not supported", "no such function"])
def test_a_gpu_without_links_has_none(fake: Any, nvml: RealNvml, code: int) -> None:
    """Old drivers and plain cards have no NVLinks, which is no error."""
    fake.set(f"fail nvmlDeviceGetNvLinkState {code} -1")
    nvml.open()
    nvml.gpu(1)
    assert nvml.nvlinks("GPU-00000001") == {}


def test_opens_once(fake: Any, nvml: RealNvml) -> None:
    """A second open is a no-op, and a closed door refuses calls instead of crashing."""
    nvml.open()
    nvml.open()
    assert fake.calls("nvmlInitWithFlags") == 1
    assert nvml.library() == str(fake.library)
    nvml.close()
    nvml.close()
    assert fake.calls("nvmlShutdown") == 1
    assert nvml.library() == ""
    with pytest.raises(NvmlError, match="closed") as caught:
        nvml.count()
    assert caught.value.code == Code.UNINITIALIZED


@pytest.mark.parametrize(
    ("rule", "driver", "code"),
    [
        pytest.param("", "none", Code.DRIVER_NOT_LOADED, id="driver not loaded"),
        pytest.param("", "999.1", Code.LIB_RM_VERSION_MISMATCH, id="driver replaced"),
        pytest.param("fail nvmlInitWithFlags 999 -1", None, Code.UNKNOWN, id="init fails"),
    ],
)
def test_init_failure_then_success(
    fake: Any, nvml: RealNvml, rule: str, driver: str | None, code: Code
) -> None:
    """A failed initialisation names its code and hinders no later one."""
    fake.set(rule, driver=driver)
    with pytest.raises(NvmlError) as caught:
        nvml.open()
    assert caught.value.code == code
    fake.set(driver="580.95.05")
    nvml.open()
    assert nvml.count() == 16


def test_lost_gpu_keeps_others(fake: Any, nvml: RealNvml) -> None:
    """One lost GPU fails on its handle; its neighbours answer, and it does when it is back."""
    nvml.open()
    uuids = [nvml.gpu(n).uuid for n in range(16)]
    fake.change(3, status="lost")
    failed = [uuid for uuid in uuids if _code(lambda uuid=uuid: nvml.check(uuid))]
    assert failed == ["GPU-00000003"]
    assert _code(lambda: nvml.gpu(3)) == Code.GPU_IS_LOST
    fake.change(3, status="ok")
    nvml.check("GPU-00000003")


def test_stale_handle_is_looked_up_again(fake: Any, nvml: RealNvml) -> None:
    """A handle that the driver no longer takes is replaced once before the GPU counts as bad."""
    nvml.open()
    nvml.gpu(2)
    fake.set("fail nvmlDeviceGetMemoryInfo 2 2")
    before = fake.calls("nvmlDeviceGetHandleByUUID")
    assert _code(lambda: nvml.check("GPU-00000002")) == Code.INVALID_ARGUMENT
    assert fake.calls("nvmlDeviceGetHandleByUUID") == before + 1


@pytest.mark.parametrize("value", [0, 1, 2, 4])
def test_recovery_action(fake: Any, nvml: RealNvml, value: int) -> None:
    """Field 230 is read from the union of a field value."""
    nvml.open()
    fake.change(5, recovery=value)
    assert nvml.recovery_action("GPU-00000005") == value


@pytest.mark.parametrize(
    ("kind", "data", "event"),
    [
        pytest.param(0x8, 79, ("xid", 79), id="xid"),
        pytest.param(0x2, 1, ("dbe", None), id="double bit error"),
        pytest.param(0x8000, 0, ("recovery-action", None), id="recovery action"),
        pytest.param(0x4000, 0, ("unavailable", None), id="unavailable"),
    ],
)
def test_event(
    fake: Any, nvml: RealNvml, kind: int, data: int, event: tuple[str, int | None]
) -> None:
    """An event arrives with its GPU, its kind and, for an XID, its number."""
    nvml.open()
    events = nvml.events(["GPU-00000004"])
    fake.event("GPU-00000004", kind, data)
    assert events.wait(5000) == GpuEvent(uuid="GPU-00000004", kind=event[0], xid=event[1])
    assert events.wait(0) is None
    events.close()


def test_event_of_a_gpu_that_is_lost(fake: Any, nvml: RealNvml) -> None:
    """The XID that announces the loss finds its GPU although that one no longer answers."""
    nvml.open()
    events = nvml.events(["GPU-00000006"])
    fake.change(6, status="lost")
    fake.event("GPU-00000006", 0x8, 79)
    assert events.wait(1000) == GpuEvent(uuid="GPU-00000006", kind="xid", xid=79)
    fake.event("-", 0x8, 79)
    assert events.wait(1000) == GpuEvent(uuid=None, kind="xid", xid=79)
    events.close()


def test_registers_each_gpu_once(fake: Any, nvml: RealNvml) -> None:
    """Sixteen GPUs make sixteen registrations in one event set."""
    nvml.open()
    uuids = [nvml.gpu(n).uuid for n in range(16)]
    nvml.events(uuids).close()
    assert fake.calls("nvmlEventSetCreate") == 1
    assert [fake.calls(f"registered:{uuid}") for uuid in uuids] == [1] * 16


def test_gpu_without_events_is_skipped(fake: Any, nvml: RealNvml) -> None:
    """A GPU that has no events takes no other's away."""
    nvml.open()
    fake.set("fail nvmlDeviceGetSupportedEventTypes 3 0")
    nvml.events(["GPU-00000000", "GPU-00000001"]).close()
    assert fake.calls("registered:GPU-00000000") == 0
    assert fake.calls("registered:GPU-00000001") == 1


def test_event_set_dies_with_its_session(nvml: RealNvml) -> None:
    """After the door was opened anew an old event set fails instead of using freed memory."""
    nvml.open()
    events = nvml.events([])
    nvml.close()
    nvml.open()
    assert _code(lambda: events.wait(0)) == Code.UNINITIALIZED
    events.close()


def test_close_waits_for_calls(fake: Any, nvml: RealNvml) -> None:
    """The library is shut down only after the calls under way have come back."""
    nvml.open()
    fake.set("delay nvmlDeviceGetCount_v2 300")
    counted: list[int] = []
    caller = threading.Thread(target=lambda: counted.append(nvml.count()))
    caller.start()
    fake.until(lambda: fake.calls("nvmlDeviceGetCount_v2") == 1)
    nvml.close()
    caller.join()
    assert counted == [16]
    assert fake.calls("nvmlShutdown") == 1


def test_close_leaves_a_hanging_call_its_library(
    fake: Any, nvml: RealNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that hangs neither blocks closing for good nor loses the library under its feet."""
    monkeypatch.setattr(nvml_module, "DRAIN_SECONDS", 0.05)
    nvml.open()
    fake.set("delay nvmlDeviceGetCount_v2 60000")
    caller = threading.Thread(target=lambda: _code(nvml.count))
    caller.start()
    fake.until(lambda: fake.calls("nvmlDeviceGetCount_v2") == 1)
    nvml.close()
    assert fake.calls("nvmlShutdown") == 0
    nvml.open()
    assert nvml.driver_version() == "580.95.05"
    fake.set()
    caller.join()
    nvml.close()
    assert fake.calls("nvmlShutdown") == 1


def test_library_replaced_under_driver_root(
    fake: Any, compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    """After a driver upgrade the name resolves to the new file, and that one is used."""
    folder = tmp_path / "root/usr/lib64"
    folder.mkdir(parents=True)
    link = _install(folder, compiled("580.95.05"))
    door = RealNvml(driver_root=tmp_path / "root")
    door.open()
    assert door.driver_version() == "580.95.05"

    fake.set(driver="590.1")
    assert _code(door.count) == Code.LIB_RM_VERSION_MISMATCH
    door.close()
    assert _code(door.open) == Code.LIB_RM_VERSION_MISMATCH

    link.unlink()
    _install(folder, compiled("590.1"))
    door.open()
    assert door.driver_version() == "590.1"
    assert door.library().endswith("libnvidia-ml.so.590.1")
    assert door.count() == 16
    door.close()


def test_library_replaced_at_the_same_path(
    fake: Any, compiled: Callable[[str], Path], tmp_path: Path
) -> None:
    """A new file under the old path is loaded too, though the loader knows the path."""
    door = RealNvml(library=fake.library)
    door.open()
    door.close()
    fresh = tmp_path / "fresh"
    shutil.copy(compiled("590.1"), fresh)
    fresh.rename(fake.library)
    fake.set(driver="590.1")
    door.open()
    assert door.driver_version() == "590.1"
    door.close()


@pytest.mark.parametrize("folder", FOLDERS)
def test_finds_library_under_driver_root(folder: str, tmp_path: Path) -> None:
    """Each of the six usual folders is looked into, and links are followed."""
    (tmp_path / folder).mkdir(parents=True)
    real = tmp_path / folder / "libnvidia-ml.so.580.95.05"
    real.touch()
    (tmp_path / folder / "libnvidia-ml.so.1").symlink_to(real.name)
    assert Library(given=None, driver_root=tmp_path).find() == real


def test_absolute_links_stay_under_the_root(tmp_path: Path) -> None:
    """A link to /etc/alternatives leads to the driver root's own, not to ours."""
    (tmp_path / "etc/alternatives").mkdir(parents=True)
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "lib64").symlink_to("/usr/lib64")
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").symlink_to("/etc/alternatives/nvml")
    (tmp_path / "etc/alternatives/nvml").symlink_to("../../usr/lib64/real.so")
    found = resolve_under(tmp_path, "lib64/libnvidia-ml.so.1")
    assert found == tmp_path / "usr/lib64/real.so"


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    """Links that lead nowhere are given up, as the kernel does."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert not resolve_under(tmp_path, "a").is_file()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param("missing.so", "cannot be loaded", id="not there"),
        pytest.param("text.so", "cannot be loaded", id="not a library"),
        pytest.param(None, "nor by the loader", id="nowhere"),
    ],
)
def test_no_library(given: str | None, text: str, tmp_path: Path) -> None:
    """A library that is not there is one error that says where it was looked for."""
    (tmp_path / "text.so").write_text("no library")
    library = tmp_path / given if given else None
    with pytest.raises(NvmlError, match=text) as caught:
        RealNvml(library=library, driver_root=tmp_path).open()
    assert caught.value.code == Code.LIBRARY_NOT_FOUND
    assert str(tmp_path) in str(caught.value)


def _install(folder: Path, library: Path) -> Path:
    shutil.copy(library, folder)
    link = folder / "libnvidia-ml.so.1"
    link.symlink_to(library.name)
    return link


def _code(call: Callable[[], object]) -> int:
    try:
        call()
    except NvmlError as error:
        return error.code
    return 0


def test_library_of_the_loader(fake: Any, compiled: Callable[[str], Path], tmp_path: Path) -> None:
    """Found by name alone, the file is known all the same, and so is what replaces it there.

    1. The loader finds the library by its search path.
    2. The kernel's driver is replaced, and so is the file behind the same name.
    3. The process goes on with the new one; the loader by itself would keep the old.
    """
    link = _install(tmp_path, compiled("580.95.05"))
    code = """
import sys
from deviceplugin.vendors.nvidia.door import NvmlError
from deviceplugin.vendors.nvidia.nvml import RealNvml
door = RealNvml()
door.open()
print(door.library(), flush=True)
sys.stdin.readline()
try:
    door.count()
except NvmlError as error:
    print(error.code, flush=True)
door.close()
door.open()
print(door.library(), door.driver_version(), flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        link.unlink()
        _install(tmp_path, compiled("590.1"))
        fake.set(driver="590.1")
        process.stdin.write("\n")
        process.stdin.flush()
        answers = process.stdout.read().splitlines()
    assert first == str(tmp_path / "libnvidia-ml.so.580.95.05")
    assert answers == ["18", f"{tmp_path / 'libnvidia-ml.so.590.1'} 590.1"]
