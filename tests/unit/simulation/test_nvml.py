"""The simulated NVML behind the vendor's door, as one thread sees it."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from deviceplugin.simulation.machine import Machine
from deviceplugin.simulation.nvml import SimulatedNvml
from deviceplugin.simulation.timeline import read_line
from deviceplugin.vendors.nvidia.door import Code, GpuEvent, Nvml, NvmlError

Apply = Callable[[str], None]


@dataclass
class Clock:
    """A clock that moves by hand; steps and calls take no time."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Stand still."""
    return Clock()


@pytest.fixture
def nvml(machine: Machine, clock: Clock) -> SimulatedNvml:
    """Open the driver of the small machine."""
    nvml = SimulatedNvml(machine, clock=clock)
    nvml.open()
    return nvml


@pytest.fixture
def apply(nvml: SimulatedNvml) -> Apply:
    """Let a step happen, written as in a control file."""

    def apply(line: str) -> None:
        nvml.apply(read_line(line, {"nvidia": 2}, file="c", line=1))

    return apply


def _uuids(machine: Machine) -> list[str]:
    assert machine.nvidia is not None
    return [gpu.uuid for gpu in machine.nvidia.gpus]


def test_it_stands_behind_the_door(nvml: Nvml, machine: Machine) -> None:
    """Through the door's protocol every GPU shows what its file says."""
    assert nvml.driver_version() == "1.2.3"
    assert nvml.count() == 2
    assert [nvml.gpu(index).uuid for index in range(2)] == _uuids(machine)
    second = nvml.gpu(1)
    assert (second.name, second.memory_mib, second.minor) == ("Model", 100, 1)
    nvml.check(second.uuid)
    assert nvml.recovery_action(second.uuid) == 0


def test_without_a_section_there_is_no_library() -> None:
    """A machine without NVIDIA has no library to open."""
    with pytest.raises(NvmlError) as caught:
        SimulatedNvml(Machine(name="bare")).open()
    assert caught.value.code == Code.LIBRARY_NOT_FOUND


def test_closed_it_answers_nothing(nvml: SimulatedNvml) -> None:
    """After close every call says that NVML is not initialised, until it is opened anew."""
    assert nvml.library()
    nvml.close()
    assert nvml.library() == ""
    with pytest.raises(NvmlError) as caught:
        nvml.count()
    assert caught.value.code == Code.UNINITIALIZED
    nvml.open()
    assert nvml.count() == 2


@pytest.mark.parametrize("index", [2, 99])
def test_an_index_too_high_is_an_argument_error(nvml: SimulatedNvml, index: int) -> None:
    """There is no GPU behind the last one."""
    with pytest.raises(NvmlError) as caught:
        nvml.gpu(index)
    assert caught.value.code == Code.INVALID_ARGUMENT


def test_a_lost_gpu_is_lost_alone(nvml: SimulatedNvml, apply: Apply, machine: Machine) -> None:
    """A lost GPU is counted and fails each call; the other one answers."""
    apply("lost: 0")
    assert nvml.count() == 2
    with pytest.raises(NvmlError) as caught:
        nvml.check(_uuids(machine)[0])
    assert caught.value.code == Code.GPU_IS_LOST
    nvml.check(_uuids(machine)[1])


def test_an_unplugged_gpu_is_not_counted(
    nvml: SimulatedNvml, apply: Apply, machine: Machine
) -> None:
    """The GPUs behind a gap move up, each with its own minor; the gap's UUID is unknown."""
    apply("unplug: 0")
    assert nvml.count() == 1
    assert (nvml.gpu(0).index, nvml.gpu(0).minor) == (0, 1)
    with pytest.raises(NvmlError) as caught:
        nvml.check(_uuids(machine)[0])
    assert caught.value.code == Code.NOT_FOUND


def test_a_driver_that_came_back_must_be_opened(nvml: SimulatedNvml, apply: Apply) -> None:
    """Gone: refused. Back: not initialised, until opened anew."""
    apply("driver: gone")
    with pytest.raises(NvmlError) as gone:
        nvml.count()
    with pytest.raises(NvmlError) as refused:
        nvml.open()
    assert {gone.value.code, refused.value.code} == {Code.DRIVER_NOT_LOADED}
    apply("driver: back")
    with pytest.raises(NvmlError) as closed:
        nvml.count()
    assert closed.value.code == Code.UNINITIALIZED
    nvml.open()
    assert nvml.count() == 2


def test_an_error_of_the_driver_meets_every_call(nvml: SimulatedNvml, apply: Apply) -> None:
    """An error without a GPU is NVML as a whole failing, whatever its code."""
    apply("error: 42")
    with pytest.raises(NvmlError) as caught:
        nvml.gpu(1)
    assert caught.value.code == 42
    apply("recover: all")
    assert nvml.gpu(1)


def test_a_reset_ends_by_itself(
    nvml: SimulatedNvml, apply: Apply, clock: Clock, machine: Machine
) -> None:
    """A GPU that is being reset is lost at first and answers a little later."""
    uuid = _uuids(machine)[0]
    apply("reset: 0")
    with pytest.raises(NvmlError):
        nvml.check(uuid)
    clock.now += 3
    nvml.check(uuid)


def test_events_reach_the_sets_that_watch(
    nvml: SimulatedNvml, apply: Apply, machine: Machine
) -> None:
    """An event set gets events of its GPUs, in order, and none of others."""
    first, second = _uuids(machine)
    both, one = nvml.events([first, second]), nvml.events([second])
    apply("{xid: 31, gpu: 0}")
    apply("{xid: 79, gpu: 1}")
    expected = GpuEvent(uuid=second, kind="xid", xid=79)
    assert one.wait(0) == expected
    assert one.wait(0) is None
    assert both.wait(0) == GpuEvent(uuid=first, kind="xid", xid=31)
    assert both.wait(0) == expected


def test_a_closed_set_gets_nothing(nvml: SimulatedNvml, apply: Apply, machine: Machine) -> None:
    """What happens after the close is not kept for anybody, and other sets go on."""
    closed, other = nvml.events(_uuids(machine)), nvml.events(_uuids(machine))
    closed.close()
    apply("{xid: 31, gpu: 0}")
    assert closed.wait(0) is None
    assert other.wait(0) is not None


def test_a_wait_fails_when_the_driver_goes(
    nvml: SimulatedNvml, apply: Apply, machine: Machine
) -> None:
    """A wait on a driver that is gone raises instead of lasting."""
    events = nvml.events(_uuids(machine))
    apply("driver: gone")
    with pytest.raises(NvmlError) as caught:
        events.wait(60_000)
    assert caught.value.code == Code.DRIVER_NOT_LOADED


def test_each_open_is_announced(nvml: SimulatedNvml) -> None:
    """Whoever runs the machine's timeline learns of each opening."""
    opened = []
    nvml.on_open = lambda: opened.append(1)
    nvml.open()
    nvml.open()
    assert len(opened) == 2
