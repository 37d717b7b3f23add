"""Discovery and the health threads over a library with NVML's binary interface."""

import threading
import time
from typing import Any

import pytest

from deviceplugin.backend import BackendUnavailableError
from deviceplugin.events import SeenGood, Symptom, WasReset
from deviceplugin.model import Action, BackendState
from deviceplugin.vendors.nvidia.health import Timing


def seen_resets(rig: Any) -> list[Any]:
    """Resets that were seen, not inferred."""
    return [event for event in rig.of(WasReset) if not event.witness]


def test_discovers_sixteen(rig: Any) -> None:
    """The scan lists every GPU by UUID, in the driver's order."""
    scan = rig.backend.discover()
    assert [device.id for device in scan.devices] == [f"GPU-{n:08d}" for n in range(16)]
    assert [device.index for device in scan.devices] == list(range(16))
    assert scan.problems == ()


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetPciInfo_v3",
    ],
)
@pytest.mark.parametrize("code", [15, 999], ids=["lost", "unknown error"])
def test_one_gpu_fails_alone(fake: Any, rig: Any, function: str, code: int) -> None:
    """Whatever cannot be read of one GPU, fifteen others are listed and it is named."""
    fake.set(f"fail {function} {code} 7")
    scan = rig.backend.discover()
    assert [device.index for device in scan.devices] == [n for n in range(16) if n != 7]
    assert len(scan.problems) == 1
    assert f"code {code}" in scan.problems[0]


@pytest.mark.parametrize(
    ("driver", "rule", "state"),
    [
        pytest.param("none", "", BackendState.NO_DRIVER, id="driver not loaded"),
        pytest.param("999.1", "", BackendState.DRIVER_MISMATCH, id="driver replaced"),
        pytest.param(None, "fail nvmlInitWithFlags 999 -1", BackendState.MONITOR_LOST, id="init"),
        pytest.param(
            None, "fail nvmlDeviceGetCount_v2 999 -1", BackendState.MONITOR_LOST, id="count"
        ),
        pytest.param(
            None,
            "fail nvmlDeviceGetUUID 999 -1",
            BackendState.MONITOR_LOST,
            id="every GPU for no reason of its own",
        ),
    ],
)
def test_driver_as_a_whole(
    fake: Any, rig: Any, driver: str | None, rule: str, state: BackendState
) -> None:
    """A driver that answers nobody is a named state; when it is back, so are the GPUs."""
    fake.set(rule, driver=driver)
    with pytest.raises(BackendUnavailableError) as caught:
        rig.backend.discover()
    assert caught.value.state is state
    fake.set(driver="580.95.05")
    assert len(rig.backend.discover().devices) == 16


def test_no_gpu_is_a_state(fake: Any, rig: Any) -> None:
    """A driver without GPUs is waited on; the one plugged in later is found by opening anew."""
    gpus, fake.gpus = fake.gpus, []
    fake.write()
    with pytest.raises(BackendUnavailableError) as caught:
        rig.backend.discover()
    assert caught.value.state is BackendState.NO_DEVICES
    fake.gpus = gpus[:1]
    fake.write()
    assert len(rig.backend.discover().devices) == 1


def test_xid_arrives_at_once(fake: Any, rig: Any) -> None:
    """An XID becomes a symptom of its GPU within 50 ms, with the table's action."""
    rig.backend.discover()
    rig.start()
    fake.until(lambda: fake.calls("nvmlEventSetWait_v2") > 0)
    sent = time.monotonic()
    fake.event("GPU-00000002", 0x8, 79)
    fake.until(lambda: rig.of(Symptom))
    assert time.monotonic() - sent < 0.05
    (symptom,) = rig.of(Symptom)
    assert (symptom.device, symptom.kind) == ("GPU-00000002", "xid-79")
    assert symptom.action is Action.REBOOT


def test_registers_each_gpu_once_for_good(fake: Any, rig: Any) -> None:
    """Events, polls and rescans add no registration to the one that each GPU has."""
    rig.backend.discover()
    rig.start()
    fake.event("GPU-00000002", 0x8, 31)
    fake.until(lambda: rig.of(Symptom))
    polled = fake.calls("nvmlDeviceGetMemoryInfo")
    fake.until(lambda: fake.calls("nvmlDeviceGetMemoryInfo") > polled + 64)
    rig.backend.discover()
    fake.until(lambda: fake.calls("nvmlEventSetWait_v2") > 5)
    assert [fake.calls(f"registered:GPU-{n:08d}") for n in range(16)] == [1] * 16
    assert fake.calls("nvmlEventSetCreate") == 1


def test_event_of_unknown_gpu_judges_nobody(fake: Any, rig: Any) -> None:
    """An event that names no GPU takes none away."""
    rig.backend.discover()
    rig.start()
    fake.event("-", 0x8, 79)
    fake.event("GPU-00000001", 0x8, 13)
    fake.until(lambda: rig.of(Symptom))
    assert rig.symptoms() == {("GPU-00000001", "xid-13")}


def test_wait_error_storm(fake: Any, rig: Any, timing: Timing) -> None:
    """Waits that fail at once are paused between, say so once, and end by themselves."""
    rig.backend.discover()
    rig.start()
    fake.until(lambda: fake.calls("nvmlEventSetWait_v2") > 0)
    fake.set("fail nvmlEventSetWait_v2 999 -1")
    fake.until(lambda: BackendState.MONITOR_LOST in rig.states())
    before = fake.calls("nvmlEventSetWait_v2")
    began = time.monotonic()
    fake.until(lambda: fake.calls("nvmlEventSetWait_v2") >= before + 3)
    assert time.monotonic() - began > 2 * timing.first_retry
    assert rig.states() == [BackendState.MONITOR_LOST]
    assert rig.of(Symptom) == []
    fake.set()
    fake.until(lambda: rig.states()[-1] is BackendState.READY)
    fake.event("GPU-00000009", 0x8, 48)
    fake.until(lambda: rig.symptoms() == {("GPU-00000009", "xid-48")})


class TestEventsWithoutPoll:
    """Events while the poll rests."""

    @pytest.fixture
    def timing(self) -> Timing:
        """Only the first poll falls into a test."""
        return Timing(poll=3600.0, wait=0.1)

    def test_storm_of_events(self, fake: Any, rig: Any) -> None:
        """Each XID of a storm is told; the driver is asked for its advice only once for them."""
        rig.backend.discover()
        rig.start()
        fake.until(lambda: fake.calls("nvmlDeviceGetFieldValues") == 16)
        for _ in range(100):
            fake.event("GPU-00000002", 0x8, 31)
        fake.until(lambda: len(rig.of(Symptom)) == 100)
        assert fake.calls("nvmlDeviceGetFieldValues") == 17

    def test_recovery_action_beside_the_xid(self, fake: Any, rig: Any) -> None:
        """What the driver asks for is told with the event, not a poll later."""
        rig.backend.discover()
        rig.start()
        fake.until(lambda: fake.calls("nvmlDeviceGetFieldValues") == 16)
        fake.change(2, recovery=4)
        fake.event("GPU-00000002", 0x8000)
        fake.until(lambda: rig.symptoms() == {("GPU-00000002", "recovery-action")})


class TestPollAtItsRealPace:
    """The poll as it is shipped: once a second."""

    @pytest.fixture
    def timing(self) -> Timing:
        """The shipped paces."""
        return Timing()

    def test_lost_without_event(self, fake: Any, rig: Any) -> None:
        """A GPU that goes without a word is noticed within 1.1 s; its neighbours stay."""
        rig.backend.discover()
        rig.start()
        fake.until(lambda: len(rig.of(SeenGood)) == 16)
        lost = time.monotonic()
        fake.change(11, status="lost")
        fake.until(lambda: rig.of(Symptom))
        assert time.monotonic() - lost < 1.1
        assert rig.symptoms() == {("GPU-00000011", "lost")}

    def test_polls_at_most_once_a_second(self, fake: Any, rig: Any) -> None:
        """A GPU is asked once a second, however quick its answers are."""
        rig.backend.discover()
        asked = fake.calls("nvmlDeviceGetMemoryInfo")
        began = time.monotonic()
        rig.start()
        fake.until(lambda: fake.calls("nvmlDeviceGetMemoryInfo") >= asked + 48)
        assert time.monotonic() - began >= 1.9


def test_gpu_that_comes_back(fake: Any, rig: Any) -> None:
    """A lost GPU that answers again was brought up anew: a reset, good polls, new registration."""
    rig.backend.discover()
    rig.start()
    fake.until(lambda: fake.calls("registered:GPU-00000003") == 1)
    fake.change(3, status="lost")
    fake.until(lambda: ("GPU-00000003", "lost") in rig.symptoms())
    fake.change(3, status="ok")
    fake.until(lambda: [event.device for event in seen_resets(rig)] == ["GPU-00000003"])
    back = seen_resets(rig)[0].at
    fake.until(
        lambda: any(good.device == "GPU-00000003" and good.at >= back for good in rig.of(SeenGood))
    )
    fake.until(lambda: fake.calls("registered:GPU-00000003") >= 2)
    fake.event("GPU-00000003", 0x8, 31)
    fake.until(lambda: ("GPU-00000003", "xid-31") in rig.symptoms())


def test_gpu_that_needs_a_reset(fake: Any, rig: Any) -> None:
    """Reset required is a fault until the reset, and the answer after it is that reset."""
    rig.backend.discover()
    rig.start()
    fake.set("fail nvmlDeviceGetMemoryInfo 16 4")
    fake.until(lambda: ("GPU-00000004", "reset-required") in rig.symptoms())
    assert rig.of(Symptom)[0].action is Action.RESET
    fake.set()
    fake.until(lambda: [event.device for event in seen_resets(rig)] == ["GPU-00000004"])


def test_recovery_action(fake: Any, rig: Any) -> None:
    """What the driver asks for holds the GPU, without good polls, until it asks no more."""
    rig.backend.discover()
    rig.start()
    fake.until(lambda: len(rig.of(SeenGood)) == 16)
    fake.change(8, recovery=1)
    fake.until(lambda: ("GPU-00000008", "recovery-action") in rig.symptoms())
    first = rig.of(Symptom)[0]
    assert first.action is Action.RESET
    asked = fake.calls("nvmlDeviceGetFieldValues")
    fake.until(lambda: fake.calls("nvmlDeviceGetFieldValues") > asked + 32)
    assert not any(good.device == first.device and good.at > first.at for good in rig.of(SeenGood))
    fake.change(8, recovery=0)
    fake.until(lambda: "GPU-00000008" in [event.device for event in seen_resets(rig)])
    assert len(seen_resets(rig)) == 1


def test_reset_while_nobody_looked(fake: Any, rig: Any) -> None:
    """The first reading bears witness for each GPU, once, that nothing is asked for now."""
    rig.backend.discover()
    fake.change(8, recovery=1)
    fake.change(9, recovery=-1)
    rig.start()
    polled = fake.calls("nvmlDeviceGetFieldValues")
    fake.until(lambda: fake.calls("nvmlDeviceGetFieldValues") > polled + 48)
    witnessed = [event.device for event in rig.of(WasReset) if event.witness == "recovery-action"]
    assert witnessed == [f"GPU-{n:08d}" for n in range(16) if n not in (8, 9)]


def test_whole_driver_failing_judges_no_gpu(fake: Any, rig: Any) -> None:
    """When no GPU answers and none is said to be gone, the monitor is lost, not the GPUs."""
    rig.backend.discover()
    rig.start()
    fake.set("fail nvmlDeviceGetMemoryInfo 999 -1")
    fake.until(lambda: rig.states() == [BackendState.MONITOR_LOST])
    fake.set()
    fake.until(lambda: rig.states() == [BackendState.MONITOR_LOST, BackendState.READY])
    assert rig.of(Symptom) == []


def test_failure_that_begins_within_a_round(fake: Any, rig: Any) -> None:
    """One odd answer makes no fault, two in a row do: the driver may fail in mid-round."""
    rig.backend.discover()
    rig.start()
    fake.until(lambda: len(rig.of(SeenGood)) == 16)
    fake.set("fail nvmlDeviceGetMemoryInfo 999 3")
    fake.until(lambda: rig.symptoms() == {("GPU-00000003", "not-answering")})
    answered = [good.at for good in rig.of(SeenGood) if good.device == "GPU-00000003"]
    assert rig.of(Symptom)[0].at - answered[-1] > rig.backend.health.timing.poll


def test_scan_revives_a_lost_monitor(fake: Any, rig: Any) -> None:
    """A library that no longer answers its session is opened anew by the next scan."""
    rig.backend.discover()
    rig.start()
    fake.set("fail nvmlDeviceGetMemoryInfo 999 -1")
    fake.until(lambda: BackendState.MONITOR_LOST in rig.states())
    with pytest.raises(BackendUnavailableError):
        rig.backend.discover()
    assert fake.calls("nvmlInitWithFlags") == 2
    fake.set()
    assert len(rig.backend.discover().devices) == 16
    fake.until(lambda: rig.states()[-1] is BackendState.READY)


def test_driver_that_was_reloaded(fake: Any, rig: Any) -> None:
    """A driver that was away and is back has brought every GPU up anew."""
    rig.backend.discover()
    rig.start()
    fake.set(driver="none")
    with pytest.raises(BackendUnavailableError):
        rig.backend.discover()
    fake.set(driver="580.95.05")
    rig.backend.discover()
    fake.until(lambda: [event.device for event in seen_resets(rig)] == [None])
    assert rig.of(Symptom) == []


def test_hanging_call_costs_one_thread(fake: Any, rig: Any) -> None:
    """A call that hangs is a state with its time; no other thread follows it into the driver."""
    rig.backend.discover()
    rig.start()
    fake.until(lambda: len(rig.of(SeenGood)) == 16)
    fake.set("delay nvmlDeviceGetMemoryInfo 600000")
    fake.until(lambda: rig.states() == [BackendState.DRIVER_HUNG])
    asked = fake.calls("nvmlDeviceGetMemoryInfo")
    threads = threading.active_count()
    with pytest.raises(BackendUnavailableError) as caught:
        rig.backend.discover()
    assert caught.value.state is BackendState.DRIVER_HUNG
    assert "asking whether GPU-" in caught.value.detail
    assert fake.calls("nvmlDeviceGetMemoryInfo") == asked
    assert threading.active_count() == threads
    fake.event("GPU-00000001", 0x8, 13)
    fake.until(lambda: rig.of(Symptom))
    fake.set()
    fake.until(lambda: fake.calls("nvmlDeviceGetMemoryInfo") > asked)
    rig.backend.discover()
    fake.until(lambda: rig.states() == [BackendState.DRIVER_HUNG, BackendState.READY])


def test_gpu_that_cannot_be_registered(fake: Any, rig: Any) -> None:
    """A GPU that takes no registration keeps no other from its events, and is tried again."""
    rig.backend.discover()
    fake.set("fail nvmlDeviceRegisterEvents 999 0")
    rig.start()
    fake.event("GPU-00000001", 0x8, 13)
    fake.until(lambda: rig.symptoms() == {("GPU-00000001", "xid-13")})
    fake.set()
    tried = fake.calls("registered:GPU-00000000")
    fake.until(lambda: fake.calls("registered:GPU-00000000") > tried)
    fake.event("GPU-00000000", 0x8, 13)
    fake.until(lambda: ("GPU-00000000", "xid-13") in rig.symptoms())


def test_stops_soon(rig: Any) -> None:
    """All threads end within one wait."""
    rig.backend.discover()
    rig.start()
    began = time.monotonic()
    assert rig.close() == ()
    assert time.monotonic() - began < 1.0
