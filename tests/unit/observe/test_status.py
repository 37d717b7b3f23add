"""What the fold makes of events."""

import time
from collections.abc import Callable

import pytest

from deviceplugin import events as ev
from deviceplugin.config.nvidia_options import NvidiaFlags
from deviceplugin.config.rules import Config, Problem
from deviceplugin.model import Action, BackendState, DeviceId, ResourceName, Views
from deviceplugin.observe.histogram import BOUNDS, Histogram
from deviceplugin.observe.status import DeviceHealth, Seen, Status, apply, health, with_views

GPU = ResourceName("nvidia.com/gpu")
OTHER = ResourceName("nvidia.com/gpu.shared")
Fold = Callable[..., Status]
MakeViews = Callable[..., Views]


def _allocated(refused: str = "", seconds: float = 0.0004) -> ev.Allocated:
    return ev.Allocated(resource=GPU, units=(), refused=refused, seconds=seconds, at=1.0)


def _tried(error: str, at: float = 1.0) -> ev.RegistrationTried:
    return ev.RegistrationTried(resource=GPU, endpoint="a.sock", error=error, seconds=0.1, at=at)


def _streams(count: int, at: float) -> ev.StreamsChanged:
    return ev.StreamsChanged(resource=GPU, open=count, at=at)


def _refused(*remedies: str) -> ev.ConfigRefused:
    problems = tuple(
        Problem(file="f.yaml", line=line, path="", found="x", remedy=remedy)
        for line, remedy in enumerate(remedies, 1)
    )
    return ev.ConfigRefused(source="f.yaml", problems=problems, at=2.0)


def _accepted(flags: object = None) -> ev.ConfigAccepted:
    config = Config(source="f.yaml", digest="12ab", flags=flags, warnings=("w",))
    return ev.ConfigAccepted(config=config, text="", at=3.0)


def test_allocations_are_counted_by_result_with_their_time(fold: Fold) -> None:
    """Answers and refusals count apart; both are in the latency."""
    service = fold(_allocated(), _allocated(), _allocated(refused="no")).services[GPU]
    assert (service.answered, service.denied) == (2, 1)
    assert service.allocate.counts[0] == 3
    assert service.allocate.total == pytest.approx(0.0012)


def test_resources_do_not_mix(fold: Fold) -> None:
    """An event of one resource leaves the others as they were."""
    status = fold(_allocated(), ev.PreferredAnswered(resource=OTHER, size=1, seconds=0.1, at=1.0))
    assert status.services[GPU].prefer == Histogram()
    assert status.services[OTHER].allocate == Histogram()
    assert sum(status.services[OTHER].prefer.counts) == 1


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [
        pytest.param(0.0, 0, id="nothing"),
        pytest.param(BOUNDS[0], 0, id="a-bound-is-inclusive"),
        pytest.param(BOUNDS[0] + 1e-9, 1, id="just-above-a-bound"),
        pytest.param(BOUNDS[-1], len(BOUNDS) - 1, id="the-last-bound"),
        pytest.param(1e6, len(BOUNDS), id="above-all-bounds"),
    ],
)
def test_a_latency_falls_into_its_bucket(seconds: float, bucket: int) -> None:
    """Bounds are inclusive, as Prometheus' ``le`` says."""
    counts = Histogram().observed(seconds).counts
    assert [place for place, count in enumerate(counts) if count] == [bucket]


def test_a_registrations_error_stays_until_one_is_accepted(fold: Fold) -> None:
    """Readiness tells the kubelet's last words; success takes them back."""
    status = fold(_tried("already registered"), _tried("already registered"))
    assert status.services[GPU].error == "already registered"
    status = fold(_tried(""), status=status)
    service = status.services[GPU]
    assert (service.error, service.registered, service.refused) == ("", 1, 2)


@pytest.mark.parametrize(
    ("events", "lost"),
    [
        pytest.param([_streams(0, 1.0)], None, id="never-open-is-not-lost"),
        pytest.param([_streams(1, 1.0)], None, id="open"),
        pytest.param([_streams(1, 1.0), _streams(0, 2.0)], 2.0, id="lost"),
        pytest.param([_streams(1, 1.0), _streams(0, 2.0), _streams(0, 9.0)], 2.0, id="still-lost"),
        pytest.param([_streams(1, 1.0), _streams(0, 2.0), _streams(1, 3.0)], None, id="open-again"),
    ],
)
def test_when_a_stream_was_lost(fold: Fold, events: list[ev.Event], lost: float | None) -> None:
    """The time counts from the moment the last stream ended."""
    assert fold(*events).services[GPU].stream_lost == lost


def test_lists_and_displacements_are_counted(fold: Fold) -> None:
    """The newest list's size and time are kept, and every takeover counts."""
    sent = [ev.ListSent(resource=GPU, units=1, healthy=1, size=s, at=s) for s in (10, 20)]
    service = fold(*sent, ev.Displaced(resource=GPU, detail="rival", at=1.0)).services[GPU]
    assert (service.sends, service.sent_bytes, service.sent_at) == (2, 20, 20)
    assert service.displaced == 1


def test_a_refused_config_leaves_the_one_in_force(fold: Fold) -> None:
    """Problems are told beside the accepted source, and an accepted text clears them."""
    status = fold(_accepted(), _refused("write 1", "write 2"))
    assert status.config.source == "f.yaml"
    assert status.config.problems == (
        "f.yaml:1: found x; write 1",
        "f.yaml:2: found x; write 2",
    )
    status = fold(_accepted(), status=status)
    assert (status.config.problems, status.config.generation) == ((), 2)
    assert (status.config.refusals, status.config.warnings) == (1, ("w",))


def test_a_missing_config_is_not_a_refused_one(fold: Fold) -> None:
    """A file that went away is told, and is no failed reload."""
    status = fold(_accepted(), ev.ConfigMissing(source="f.yaml", at=4.0))
    assert status.config.missing
    assert status.config.problems == ()


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        pytest.param(None, False, id="no-options"),
        pytest.param(NvidiaFlags(), False, id="default"),
        pytest.param(NvidiaFlags(restart_on_driver_mismatch=True), True, id="asked-for"),
    ],
)
def test_the_restart_option_is_taken_from_the_config(
    fold: Fold, flags: object, *, asked: bool
) -> None:
    """Vendors without the option never ask for a restart."""
    assert fold(_accepted(flags)).config.restart_on_driver_mismatch is asked


def test_holders_tell_since_when_they_are_unknown(fold: Fold) -> None:
    """A second failure does not move the time; an answer takes it back."""
    down = [ev.HoldersUnavailable(why=why, at=at) for why, at in (("a", 1.0), ("b", 2.0))]
    holders = fold(*down).holders
    assert (holders.known, holders.why, holders.since) == (False, "b", 1.0)
    answer = ev.HoldersAnswered(begun=3.0, held={}, allocatable={}, at=3.5)
    assert fold(*down, answer).holders.known is True


def test_the_kubelets_restarts_are_counted(fold: Fold) -> None:
    """Only restarts count; the time is of the present state."""
    seen = [("absent", 1.0), ("absent", 2.0), ("present", 3.0), ("restarted", 4.0)]
    events = [ev.KubeletChanged(state=state, detail="", at=at) for state, at in seen]
    assert fold(*events[:2]).kubelet.since == 1.0
    kubelet = fold(*events).kubelet
    assert (kubelet.state, kubelet.since, kubelet.restarts) == ("restarted", 4.0, 1)


def test_the_backends_time_is_of_its_state(fold: Fold) -> None:
    """Another detail of the same state keeps the time at which the state began."""
    hung = BackendState.DRIVER_HUNG
    events = [
        ev.BackendChanged(state=state, detail=detail, at=at)
        for state, detail, at in (
            (BackendState.READY, "", 1.0),
            (hung, "for 10 s", 11.0),
            (hung, "for 20 s", 21.0),
        )
    ]
    backend = fold(*events).backend
    assert (backend.state, backend.detail, backend.since) == (hung, "for 20 s", 11.0)


def test_symptoms_and_failures_are_counted_by_what_they_are(fold: Fold) -> None:
    """Each device and kind, and each source, has its own count and last time."""
    symptom = [
        ev.Symptom(device=DeviceId("GPU-0"), kind=kind, detail="d", action=Action.EVENT, at=at)
        for kind, at in (("xid-13", 1.0), ("xid-13", 2.0), ("lost", 3.0))
    ]
    failed = ev.SourceFailed(source="nvidia-poll", error="e", retry_in=1.0, at=4.0)
    status = fold(*symptom, failed)
    assert status.symptoms[DeviceId("GPU-0"), "xid-13"] == Seen(count=2, last=2.0, detail="d")
    assert status.symptoms[DeviceId("GPU-0"), "lost"].count == 1
    assert status.sources["nvidia-poll"] == Seen(count=1, last=4.0, detail="e")


def test_quiet_events_change_nothing(fold: Fold) -> None:
    """A poll that finds nothing must not make a new status each second."""
    before = fold()
    device = DeviceId("GPU-0")
    assert fold(ev.SeenGood(device=device, at=1.0), status=before) is before
    assert fold(ev.WasReset(device=device, at=1.0), status=before) is before


def test_units_are_counted_by_state(fold: Fold, make_views: MakeViews) -> None:
    """Each unit counts once, under its health or under why it is still listed."""
    reasons = {
        "a": "",
        "b": "xid-79: fell off the bus",
        "c": "draining",
        "d": "withdrawn",
        "e": "missing",
        "f": "holders unknown",
        "g": "waiting for CDI spec /etc/cdi",
        "h": "held back: single serves one kind",
    }
    status = with_views(fold(), make_views(reasons), devices=(), unmet=("x",))
    assert status.listed
    assert status.unmet == ("x",)
    assert status.units[GPU] == {
        "healthy": 1,
        "unhealthy": 2,
        "draining": 1,
        "withdrawn": 1,
        "missing": 1,
        "holders unknown": 1,
        "held back": 1,
    }


def test_devices_are_judged_in_the_drivers_order(lived_in: Status) -> None:
    """Present devices by index with their fault, then the missing ones."""
    assert [(device.device, device.reason) for device in lived_in.devices] == [
        ("GPU-0", ""),
        ("GPU-1", "xid-79"),
        ("GPU-9", "missing"),
    ]
    assert [device.healthy for device in lived_in.devices] == [True, False, False]


def test_a_device_that_is_present_is_not_missing() -> None:
    """Whatever the caller remembers of it, what was found counts."""
    assert health([], {}, [DeviceId("b"), DeviceId("a")]) == (
        DeviceHealth(device=DeviceId("a"), reason="missing"),
        DeviceHealth(device=DeviceId("b"), reason="missing"),
    )


def test_a_burst_of_allocations_is_folded_in_passing() -> None:
    """A thousand pods a second take less than a tenth of a core."""
    status = Status(vendor="nvidia")
    begun = time.process_time()
    for _ in range(1000):
        status = apply(status, _allocated())
    assert time.process_time() - begun < 0.1
    assert status.services[GPU].answered == 1000
