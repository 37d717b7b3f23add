"""What clears a fault, who judges it, and that order does not matter."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deviceplugin import events as ev
from deviceplugin.config.rules import HealthPolicy
from deviceplugin.faults import Faults, Recovery
from deviceplugin.model import Action, DeviceId

GPU = DeviceId("GPU-0")
OTHER = DeviceId("GPU-1")
DEFAULT = HealthPolicy()


def symptom(
    at: float, kind: str = "lost", action: Action = Action.RECOVER, device: DeviceId = GPU
) -> ev.Symptom:
    """Something wrong, seen at a time."""
    return ev.Symptom(device=device, kind=kind, detail=f"{kind} at {at}", action=action, at=at)


def folded(*events: ev.Symptom | ev.SeenGood | ev.WasReset) -> Faults:
    """All evidence, in this order."""
    faults = Faults()
    for event in events:
        match event:
            case ev.Symptom():
                faults = faults.raised(event)
            case ev.SeenGood(device=device, at=at):
                faults = faults.seen_good(device, at)
            case ev.WasReset(device=str() as of, at=at, witness=str(kind)) if kind:
                faults = faults.reset_inferred(DeviceId(of), kind, at)
            case ev.WasReset(device=of, at=at):
                faults = faults.was_reset(of, at)
    return faults


def good(at: float, device: DeviceId = GPU) -> ev.SeenGood:
    """A poll that found nothing."""
    return ev.SeenGood(device=device, at=at)


def reset(at: float, device: DeviceId | None = GPU) -> ev.WasReset:
    """A reset of a device, or of all."""
    return ev.WasReset(device=device, at=at)


XID79 = symptom(10.0, "xid-79", Action.REBOOT)
XID48 = symptom(10.0, "xid-48", Action.RESET)
LATER48 = symptom(12.0, "xid-48", Action.RESET)
LOST = symptom(10.0)
DEMAND = symptom(10.0, "recovery-action", Action.RESET)
OVER = ev.WasReset(device=GPU, at=20.0, witness="recovery-action")


@pytest.mark.parametrize(
    ("evidence", "kind"),
    [
        pytest.param([LOST], "lost", id="recover-at-once"),
        pytest.param([LOST, good(19.9)], "lost", id="recover-good-too-short"),
        pytest.param([LOST, good(20.0)], None, id="recover-good-long-enough"),
        pytest.param([LOST, good(30.0, OTHER)], "lost", id="recover-other-device-good"),
        pytest.param([LOST, symptom(15.0), good(24.0)], "lost", id="recover-seen-again"),
        pytest.param([LOST, reset(11.0)], "lost", id="recover-needs-good-not-reset"),
        pytest.param([XID48, good(1e6)], "xid-48", id="reset-good-is-not-enough"),
        pytest.param([XID48, reset(9.0)], "xid-48", id="reset-before-the-fault"),
        pytest.param([XID48, reset(11.0)], None, id="reset-after-the-fault"),
        pytest.param([XID48, reset(11.0, None)], None, id="reset-of-all"),
        pytest.param([XID48, reset(11.0, OTHER)], "xid-48", id="reset-of-another"),
        pytest.param([XID48, DEMAND, OVER], None, id="reset-inferred"),
        pytest.param([XID48, OVER], "xid-48", id="nothing-to-infer-from"),
        pytest.param([DEMAND, reset(11.0), LATER48, OVER], "xid-48", id="demand-was-met-before"),
        pytest.param([XID79, reset(11.0), good(1e6)], "xid-79", id="reboot-nothing-else"),
        pytest.param([symptom(10.0, "xid-13", Action.EVENT)], None, id="event-is-harmless"),
        pytest.param([symptom(10.0, "xid-13", Action.IGNORE)], None, id="ignored"),
        pytest.param(
            [XID79, symptom(99.0, "xid-13", Action.EVENT)], "xid-79", id="harmless-heals-nothing"
        ),
    ],
)
def test_what_clears_a_fault(evidence: list[Any], kind: str | None) -> None:
    """Each action has one way back, and nothing else is one."""
    fault = folded(*evidence).verdict(DEFAULT).get(GPU)
    assert (fault.kind if fault else None) == kind


@pytest.mark.parametrize(
    ("policy", "kinds"),
    [
        pytest.param(HealthPolicy(), {"xid-79"}, id="vendor-table"),
        pytest.param(HealthPolicy(overrides={"xid-79": Action.IGNORE}), set(), id="ignored"),
        pytest.param(HealthPolicy(overrides={"xid-79": Action.EVENT}), set(), id="event-only"),
        pytest.param(
            HealthPolicy(overrides={"xid-13": Action.RESET}), {"xid-79", "xid-13"}, id="made-worse"
        ),
        pytest.param(HealthPolicy(disabled=("xid-*",)), set(), id="all-off"),
        pytest.param(
            HealthPolicy(disabled=("xid-*",), enabled=("xid-79",)), {"xid-79"}, id="all-off-79-on"
        ),
        pytest.param(
            HealthPolicy(disabled=("xid-7",), enabled=()), {"xid-79"}, id="names-are-whole"
        ),
        pytest.param(
            HealthPolicy(enabled=("xid-13",)), {"xid-79", "xid-13"}, id="harmless-switched-on"
        ),
        pytest.param(
            HealthPolicy(disabled=("xid-*",), overrides={"xid-79": Action.RESET}),
            {"xid-79"},
            id="config-outranks-switches",
        ),
    ],
)
def test_policy_judges_standing_faults(policy: HealthPolicy, kinds: set[str]) -> None:
    """A changed config is a changed verdict on what was seen before."""
    faults = folded(XID79, symptom(11.0, "xid-13", Action.EVENT))
    assert {fault.kind for fault in faults.all(policy)} == kinds


def test_verdict_names_the_worst_then_the_oldest() -> None:
    """One reason is shown for a device, whatever else is wrong with it."""
    faults = folded(symptom(1.0), symptom(3.0, "xid-62", Action.REBOOT), XID79, XID48)
    assert faults.verdict(DEFAULT)[GPU].kind == "xid-62"
    assert [fault.kind for fault in faults.all(DEFAULT)] == ["xid-62", "xid-79", "xid-48", "lost"]


def test_fault_tells_first_and_last_sighting() -> None:
    """Times and text of a fault are those of its present run, the text its latest."""
    faults = folded(symptom(10.0), good(25.0), symptom(100.0), symptom(104.0))
    fault = faults.verdict(DEFAULT)[GPU]
    assert (fault.since, fault.last, fault.detail) == (100.0, 104.0, "lost at 104.0")


@pytest.mark.parametrize(
    ("returns", "hold"),
    [pytest.param(n, hold, id=f"{n}-returns") for n, hold in [(1, 10), (2, 20), (3, 40), (9, 300)]],
)
def test_flapping_device_must_be_good_for_longer(returns: int, hold: float) -> None:
    """Each return within the hour doubles the hold-down, up to five minutes."""
    seen = [symptom(100.0 * n) for n in range(returns)]
    last = seen[-1].at
    assert folded(*seen, good(last + hold - 0.1)).verdict(DEFAULT)
    assert not folded(*seen, good(last + hold)).verdict(DEFAULT)


def test_old_flaps_are_forgotten() -> None:
    """A fault an hour and more after the last one is met with the plain hold-down."""
    assert not folded(symptom(0.0), symptom(3700.0), good(3710.0)).verdict(DEFAULT)


def test_storm_is_kept_small() -> None:
    """Thousands of sightings of one kind are one record of bounded size."""
    faults = Faults(recovery=Recovery(hold=1.0))
    for n in range(1000):
        faults = faults.raised(symptom(10.0 * n, "xid-79", Action.REBOOT))
    (record,) = faults.records.values()
    assert len(record.episodes) <= 16
    fault = faults.verdict(DEFAULT)[GPU]
    assert (fault.since, fault.last) == (0.0, 9990.0)


def test_lasting_faults_keep_the_vendors_action() -> None:
    """A restart forgets nothing but what clears by itself, whoever judges it."""
    faults = folded(XID79, LOST, symptom(12.0, "xid-13", Action.EVENT))
    policy = HealthPolicy(overrides={"xid-79": Action.IGNORE, "xid-13": Action.RESET})
    kept = {fault.kind: fault.action for fault in faults.memory(policy).records}
    assert kept == {"xid-13": Action.EVENT, "xid-79": Action.REBOOT}


_times = st.integers(0, 12).map(lambda n: n * 7.0)
_kinds: Mapping[str, Action] = {
    "lost": Action.RECOVER,
    "recovery-action": Action.RESET,
    "xid-48": Action.RESET,
    "xid-79": Action.REBOOT,
    "xid-13": Action.EVENT,
}
_evidence = st.one_of(
    st.tuples(_times, st.sampled_from(sorted(_kinds)), st.sampled_from([GPU, OTHER])).map(
        lambda drawn: symptom(drawn[0], drawn[1], _kinds[drawn[1]], drawn[2])
    ),
    st.tuples(_times, st.sampled_from([GPU, OTHER])).map(lambda drawn: good(*drawn)),
    st.tuples(_times, st.sampled_from([GPU, OTHER, None])).map(lambda drawn: reset(*drawn)),
    _times.map(lambda at: ev.WasReset(device=GPU, at=at, witness="recovery-action")),
)


@given(evidence=st.lists(_evidence, max_size=12), data=st.data())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_order_does_not_matter(evidence: list[Any], data: st.DataObject) -> None:
    """The same evidence in any order gives the same faults, times and texts."""
    shuffled = data.draw(st.permutations(evidence))
    assert folded(*shuffled).all(DEFAULT) == folded(*evidence).all(DEFAULT)


@given(evidence=st.lists(_evidence, max_size=10), at=_times)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_harmless_evidence_heals_nothing(evidence: list[Any], at: float) -> None:
    """One more harmless event or sighting never removes a fault."""
    before = {(fault.device, fault.kind) for fault in folded(*evidence).all(DEFAULT)}
    more = (symptom(at, "xid-13", Action.EVENT), symptom(at, "lost"))
    after = {(fault.device, fault.kind) for fault in folded(*evidence, *more).all(DEFAULT)}
    assert before <= after
