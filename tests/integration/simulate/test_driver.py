"""The simulated driver under threads: hangs, waits, the timeline and the control file."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from watchdog.observers import inotify_c

from deviceplugin.simulation.driver import NvidiaSide, SimulatedDriver
from deviceplugin.simulation.machine_file import parse
from deviceplugin.simulation.nvml import SimulatedNvml
from deviceplugin.simulation.sysfs import Tree
from deviceplugin.simulation.timeline import read_line
from deviceplugin.vendors.nvidia.door import Code, GpuEvent, NvmlError

PATIENCE = 10.0

Switch = Callable[..., SimulatedDriver]


@pytest.fixture
def switch_on(tmp_path: Path) -> Iterator[Switch]:
    """Switch a machine of two GPUs on; its timeline is written as in a file."""
    drivers: list[SimulatedDriver] = []

    def switch(timeline: str = "[]", control: Path | None = None) -> SimulatedDriver:
        text = f"nvidia: {{gpus: {{count: 2}}}}\ntimeline: {timeline}\n"
        machine = parse(text, file="m.yaml", name="m")
        tree = Tree(sysfs=tmp_path / "sys", devfs=tmp_path / "dev", machine=machine)
        tree.write()
        drivers.append(
            SimulatedDriver(
                machine, NvidiaSide(door=SimulatedNvml(machine), tree=tree), control=control
            )
        )
        drivers[-1].side.door.open()
        return drivers[-1]

    yield switch
    for driver in drivers:
        driver.apply(read_line("recover: all", {"nvidia": 2}, file="c", line=1))
        driver.stop()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Run calls that may hang."""
    with ThreadPoolExecutor() as pool:
        yield pool


def _apply(driver: SimulatedDriver, line: str) -> None:
    driver.apply(read_line(line, {"nvidia": 2}, file="c", line=1))


def _wait(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    return condition()


def test_a_hang_is_of_one_gpu_and_ends_with_recovery(
    switch_on: Switch, pool: ThreadPoolExecutor
) -> None:
    """A call to the hanging GPU waits, others go on; recovery lets it return at once."""
    driver = switch_on()
    uuid = driver.side.door.gpu(0).uuid
    _apply(driver, "{hang: 3600, gpu: 0}")
    hanging = pool.submit(driver.side.door.check, uuid)
    assert driver.side.door.gpu(1)
    assert not hanging.done()
    _apply(driver, "recover: 0")
    assert hanging.result(PATIENCE) is None


def test_a_hang_ends_by_itself(switch_on: Switch) -> None:
    """A call hangs as long as the step says, and then answers."""
    driver = switch_on()
    _apply(driver, "hang: 0.2")
    began = time.monotonic()
    assert driver.side.door.count() == 2
    assert time.monotonic() - began >= 0.19


def test_latency_slows_each_call(switch_on: Switch) -> None:
    """With latency each call takes so long; a hang is not needed for that."""
    driver = switch_on()
    _apply(driver, "latency: 50")
    began = time.monotonic()
    driver.side.door.count()
    driver.side.door.count()
    assert time.monotonic() - began >= 0.09


def test_an_event_wakes_the_waiting_thread(switch_on: Switch, pool: ThreadPoolExecutor) -> None:
    """A wait returns with the event as soon as it happens, long before its limit."""
    driver = switch_on()
    uuid = driver.side.door.gpu(1).uuid
    waiting = pool.submit(driver.side.door.events([uuid]).wait, 3_600_000)
    _apply(driver, "{xid: 48, gpu: 1}")
    assert waiting.result(PATIENCE) == GpuEvent(uuid=uuid, kind="xid", xid=48)


def test_a_driver_that_goes_wakes_the_waiting_thread(
    switch_on: Switch, pool: ThreadPoolExecutor
) -> None:
    """A wait fails as soon as the driver is unloaded."""
    driver = switch_on()
    waiting = pool.submit(driver.side.door.events([driver.side.door.gpu(1).uuid]).wait, 3_600_000)
    _apply(driver, "driver: gone")
    with pytest.raises(NvmlError) as caught:
        waiting.result(PATIENCE)
    assert caught.value.code == Code.DRIVER_NOT_LOADED


def test_the_timeline_begins_with_the_first_opening(switch_on: Switch) -> None:
    """Steps happen by themselves, in order, and again where they repeat."""
    driver = switch_on("[{at: 0.1, lost: 0}, {at: 0.05, xid: 31, gpu: 1, repeat: 0.1}]")
    events = driver.side.door.events([driver.side.door.gpu(1).uuid])
    assert events.wait(10_000) is not None
    assert events.wait(10_000) is not None
    assert _wait(lambda: _is_lost(driver))


def _is_lost(driver: SimulatedDriver) -> bool:
    try:
        driver.side.door.gpu(0)
    except NvmlError as error:
        return error.code == Code.GPU_IS_LOST
    return False


def test_the_bus_follows(switch_on: Switch, tmp_path: Path) -> None:
    """An unplugged GPU is on the bus no more, a plugged one is again."""
    driver = switch_on()
    bus = tmp_path / "sys/bus/pci/devices"
    _apply(driver, "unplug: 0")
    assert len(list(bus.iterdir())) == driver.side.door.count() == 1
    _apply(driver, "plug: 0")
    assert len(list(bus.iterdir())) == driver.side.door.count() == 2


def test_control_lines_act_at_once(switch_on: Switch, tmp_path: Path) -> None:
    """An appended line happens within milliseconds; the lines of before are past."""
    control = tmp_path / "control"
    control.write_text("{xid: 1, gpu: 0}\n")
    driver = switch_on(control=control)
    events = driver.side.door.events([driver.side.door.gpu(index).uuid for index in range(2)])
    took = []
    for xid in range(2, 12):
        began = time.monotonic()
        with control.open("a") as file:
            file.write(f"{{xid: {xid}, gpu: 1}}\n")
        event = events.wait(10_000)
        took.append(time.monotonic() - began)
        assert event is not None
        assert event.xid == xid
    assert min(took) < 0.05


def test_a_control_file_may_come_later_or_anew(switch_on: Switch, tmp_path: Path) -> None:
    """All lines of a file that appears count, and all of one that takes its place."""
    control = tmp_path / "control"
    driver = switch_on(control=control)
    events = driver.side.door.events([driver.side.door.gpu(0).uuid])
    for xid in (31, 32):
        fresh = tmp_path / "fresh"
        fresh.write_text(f"xid: {xid}\n".replace("xid", "{xid").replace("\n", ", gpu: 0}\n"))
        fresh.rename(control)
        event = events.wait(10_000)
        assert event is not None
        assert event.xid == xid


@pytest.mark.parametrize(
    "method",
    [
        pytest.param("_create_inotify_fd", id="instances"),
        pytest.param("_get_or_create_watch", id="watches"),
    ],
)
def test_a_control_file_without_inotify(
    switch_on: Switch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
) -> None:
    """Where inotify instances or watches have run out it is polled, and that is said."""

    def exhausted(*_: object) -> None:
        raise OSError(24, "inotify limit reached")

    monkeypatch.setattr(inotify_c.InotifyFD, method, exhausted)
    control = tmp_path / "control"
    old = set(threading.enumerate())
    driver = switch_on(control=control)
    events = driver.side.door.events([driver.side.door.gpu(1).uuid])
    assert caplog.text.count("no inotify, polling instead") == 1
    control.write_text("{xid: 79, gpu: 1}\n")
    event = events.wait(10_000)
    assert event is not None
    assert event.xid == 79
    assert {each for each in threading.enumerate() if isinstance(each, inotify_c.InotifyFD)} <= old


def test_a_wrong_control_line_is_skipped(
    switch_on: Switch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A line that cannot be read is logged with its number; the next one counts."""
    control = tmp_path / "control"
    driver = switch_on(control=control)
    with control.open("a") as file:
        file.write("lose: 0\nlost: 0\n")
    assert _wait(lambda: _is_lost(driver))
    (record,) = [each for each in caplog.records if "wrong" in each.message]
    assert "control:1:" in record.problem


def test_half_a_line_waits_for_its_end(switch_on: Switch, tmp_path: Path) -> None:
    """A line counts once its newline is written."""
    control = tmp_path / "control"
    driver = switch_on(control=control)
    events = driver.side.door.events([driver.side.door.gpu(0).uuid])
    with control.open("a") as file:
        file.write("{xid: 31, ")
        file.flush()
        assert events.wait(100) is None
        file.write("gpu: 0}\n")
    assert events.wait(10_000) is not None
