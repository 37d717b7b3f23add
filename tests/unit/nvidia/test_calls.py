"""Which call hangs, and when to open NVML anew."""

from typing import Any

import pytest

from deviceplugin.events import BackendChanged, Event, Scan
from deviceplugin.model import BackendState, Device
from deviceplugin.vendors.nvidia.calls import Calls, Limits, TimedNvml
from deviceplugin.vendors.nvidia.health import Health
from deviceplugin.vendors.nvidia.reopening import Reopening
from deviceplugin.vendors.nvidia.watchdog import Watchdog


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock at 100 s."""
    return Clock()


def test_call_hangs_after_its_limit(clock: Clock) -> None:
    """A call is said to hang after its limit, with the time of its begin, until it is back."""
    calls = Calls(clock)
    with calls.during("asking", 5.0):
        clock.now = 105.0
        assert calls.hanging() is None
        clock.now = 105.1
        hang = calls.hanging()
        assert hang is not None
        assert (hang.call, hang.since) == ("asking", 100.0)
        assert str(hang) == "asking has not come back for over 5 s"
    assert calls.hanging() is None


def test_failed_call_does_not_hang(clock: Clock) -> None:
    """A call that raised is over."""
    calls = Calls(clock)
    with pytest.raises(ValueError, match="no"), calls.during("asking", 5.0):
        raise ValueError("no")
    clock.now = 200.0
    assert calls.hanging() is None


def test_every_call_is_timed(clock: Clock, nvml: Any) -> None:
    """No call enters the driver unseen."""
    seen: list[str] = []

    class Listening(Calls):
        def during(self, call: str, limit: float) -> Any:
            seen.append(call)
            return super().during(call, limit)

    timed = TimedNvml(nvml, Listening(clock), Limits())
    timed.open()
    timed.count()
    timed.gpu(0)
    timed.driver_version()
    timed.check("GPU-0")
    timed.recovery_action("GPU-0")
    timed.close()
    assert len(seen) == 7


def test_watchdog(clock: Clock) -> None:
    """A hang outranks a lost monitor; each is said once and taken back."""
    calls, health = Calls(clock), Health(clock=clock)
    watchdog = Watchdog(calls=calls, health=health)
    said: list[Event] = []
    watchdog._look(said.append)
    assert said == []
    health.ail("events", "no events")
    watchdog._look(said.append)
    watchdog._look(said.append)
    with calls.during("asking", 5.0):
        clock.now = 110.0
        watchdog._look(said.append)
        clock.now = 120.0
        watchdog._look(said.append)
    health.ail("events", "")
    watchdog._look(said.append)
    assert said == [
        BackendChanged(state=BackendState.MONITOR_LOST, detail="no events", at=100.0),
        BackendChanged(
            state=BackendState.DRIVER_HUNG,
            detail="asking has not come back for over 5 s",
            at=100.0,
        ),
        BackendChanged(state=BackendState.READY, detail="", at=120.0),
    ]


def test_watchdog_leaves_the_scan_its_say(clock: Clock) -> None:
    """While the scan says what is wrong the watchdog adds nothing."""
    health = Health(clock=clock)
    health.ail("scan", "driver not loaded")
    health.ail("poll", "closed")
    said: list[Event] = []
    Watchdog(calls=Calls(clock), health=health)._look(said.append)
    assert said == []


def test_reopening(clock: Clock, make_device: Any) -> None:
    """NVML is opened anew for a GPU that only the bus shows, at growing intervals."""
    reopening = Reopening(clock=clock, first=2.0, limit=8.0)
    shown: Device = make_device(0, pci_address="a")
    reopening.scanned(Scan(devices=(shown,), bus=frozenset("a")))
    clock.now = 1000.0
    assert not reopening.due()
    reopening.scanned(Scan(devices=(shown,), bus=frozenset("ab")))
    tries = []
    for clock.now in range(1000, 1040):
        reopening.scanned(Scan(devices=(shown,), bus=frozenset("ab")))
        if reopening.due():
            tries.append(clock.now)
    assert tries == [1002, 1006, 1014, 1022, 1030, 1038]
    reopening.scanned(Scan(devices=(shown,), bus=frozenset("abc")))
    clock.now = 1041.1
    assert reopening.due()


def test_no_reopening_without_a_bus(clock: Clock, make_device: Any) -> None:
    """A bus that cannot be read shows nothing that is missing."""
    reopening = Reopening(clock=clock)
    reopening.scanned(Scan(devices=(make_device(0),), bus=None))
    clock.now = 1e6
    assert not reopening.due()
