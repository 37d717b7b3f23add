"""What the state folder keeps, and every way in which it can be no help."""

import errno
import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from deviceplugin import events as ev
from deviceplugin import state
from deviceplugin.config.rules import Config, HealthPolicy
from deviceplugin.faults import Memory
from deviceplugin.inventory import Bounds, apply
from deviceplugin.model import Action, DeviceId
from deviceplugin.sharing.engine import Outcome
from deviceplugin.state import Identity, State

OURS = Identity(plugin_dir="/var/lib/kubelet/device-plugins", library="", machine="")
BOOT = "boot-1"


def kept(node: Any, text: str = "version: v1\n") -> State:
    """What would be written now."""
    return state.snapshot(node.inventory, node.outcome.listing, text, OURS)


def busy(new_node: Callable[..., Any]) -> Any:
    """A node with shares, withdrawn units, a fault and a missing device."""
    node = new_node(gpus=3).answer().share(4).allocate("GPU-1::3").answer().share(2)
    node.fold(
        ev.Symptom(
            device=DeviceId("GPU-0"),
            kind="xid-79",
            detail="fell off",
            action=Action.REBOOT,
            at=node.now,
        )
    )
    return node.scan(*node.devices[:2])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the state is; neither file nor folder exist."""
    return tmp_path / "state" / "nvidia.json"


def test_round_trip(new_node: Callable[..., Any], path: Path) -> None:
    """What was written is read back, equal."""
    written = kept(busy(new_node))
    assert state.save(path, written) == ""
    assert state.load(path, OURS, BOOT) == (written, "")
    assert [entry.name for entry in path.parent.iterdir()] == ["nvidia.json"]


def test_restart_lists_the_same_units(new_node: Callable[..., Any], path: Path) -> None:
    """A new process lists what the last one did, healthy and not, faults included."""
    node = busy(new_node)
    before = node.views
    state.save(path, kept(node))
    found, _ = state.load(path, OURS, BOOT)
    config = node.inventory.config
    node.inventory, listing = state.restore(found, Bounds(), now=node.now)
    node.outcome = Outcome(listing=listing)
    node.fold(ev.ConfigAccepted(config=config, text="", at=node.now))
    node.scan(*node.devices)
    assert node.listed() == [unit.id for unit in before["nvidia.com/gpu"].units]
    assert node.reasons()["GPU-0::0"] == "xid-79: fell off"
    assert node.reasons()["GPU-2::0"] == "missing: the device is not found"
    assert node.healthy() == ["GPU-1::0", "GPU-1::3"]


def test_any_unit_that_a_pod_holds_can_be_kept(new_node: Callable[..., Any], path: Path) -> None:
    """A share number above what we give out, left by a predecessor, costs no state."""
    node = new_node()
    node.pods = {"nvidia.com/gpu": {"GPU-0::65536", "GPU-0::999999999"}, "nvidia.com/x": {"GPU-0"}}
    node.answer()
    state.save(path, kept(node))
    assert state.load(path, OURS, BOOT) == (kept(node), "")


def test_restart_begins_the_wait_of_withdrawn_units_anew(new_node: Callable[..., Any]) -> None:
    """Answers of the last process do not count: a unit leaves no sooner than 30 s after a start."""
    node = new_node().answer().share(2).tick(29.0)
    inventory, listing = state.restore(kept(node), now=node.now)
    config = node.inventory.config
    node.inventory, node.outcome = inventory, Outcome(listing=listing)
    node.fold(ev.ConfigAccepted(config=config, text="", at=node.now))
    node.scan(*node.devices).answer(4, every=1.0)
    assert "GPU-0" in node.listed()
    node.tick(31.0).answer(3)
    assert "GPU-0" not in node.listed()


def test_rename_while_we_were_down_still_waits(new_node: Callable[..., Any]) -> None:
    """A config that changed while no process ran renames no faster than an edit."""
    node = new_node().answer()
    node.inventory, listing = state.restore(kept(node), now=node.now)
    node.outcome = Outcome(listing=listing)
    node.share(2, "nvidia.com/gpu.shared").scan(*node.devices)
    assert node.healthy("nvidia.com/gpu.shared") == []
    node.answer()
    assert node.healthy("nvidia.com/gpu.shared") == ["GPU-0::0", "GPU-0::1"]


def test_reboot_ends_faults_and_keeps_the_rest(new_node: Callable[..., Any], path: Path) -> None:
    """A fault that waits for a reboot is over after it; units and config are not."""
    written = kept(busy(new_node))
    state.save(path, written)
    found, note = state.load(path, OURS, "boot-2")
    assert found.faults == Memory()
    assert found.units == written.units
    assert found.config_text == "version: v1\n"
    assert "rebooted" in note
    assert "1 fault" in note


def test_reset_faults_survive_and_recovering_ones_do_not(new_node: Callable[..., Any]) -> None:
    """A restart keeps what only a reset clears; what clears by itself is seen again or was over."""
    node = new_node()
    for kind, action in [("xid-48", Action.RESET), ("lost", Action.RECOVER)]:
        node.fold(
            ev.Symptom(device=DeviceId("GPU-0"), kind=kind, detail="", action=action, at=node.now)
        )
    assert [fault.kind for fault in kept(node).faults.records] == ["xid-48"]


@pytest.mark.parametrize(
    ("action", "heals"),
    [
        pytest.param(Action.RESET, "reset", id="reset"),
        pytest.param(Action.RECOVER, "good", id="recover"),
    ],
)
def test_a_fault_taken_back_under_an_override_stays_so(
    new_node: Callable[..., Any], action: Action, heals: str
) -> None:
    """What ended a fault that the config judges milder is kept: a restart must not undo it."""
    milder = HealthPolicy(overrides={"xid-79": action})
    node = new_node(gpus=2).config(health=milder)
    device = DeviceId("GPU-0")
    xid = {"device": device, "kind": "xid-79", "detail": "", "action": Action.REBOOT}
    node.fold(ev.Symptom(**xid, at=node.now))
    assert node.healthy() == ["GPU-1"]
    node.now += 60
    over = {"reset": ev.WasReset(device=device, at=node.now)}
    node.fold(over.get(heals, ev.SeenGood(device=device, at=node.now)))
    assert node.healthy() == ["GPU-0", "GPU-1"]
    before = kept(node)
    node.fold(ev.SeenGood(device=device, at=node.now + 30))
    assert heals == "reset" or kept(node) == before
    inventory, _ = state.restore(before, now=node.now)
    assert inventory.faults.verdict(milder) == {}
    assert set(inventory.faults.verdict(HealthPolicy())) == {device}


def restarted(node: Any) -> Any:
    """Restart the daemon on the same node; pods go on."""
    node.inventory, listing = state.restore(kept(node), now=node.now)
    node.outcome = Outcome(listing=listing)
    return node.scan(*node.devices).share(1)


def met(node: Any, identity: str) -> Any:
    """See a kubelet for the first time since the restart."""
    return node.fold(ev.KubeletChanged(state="present", detail="", identity=identity, at=node.now))


def test_what_was_held_is_held_when_kubelet_and_daemon_start_together(
    new_node: Callable[..., Any],
) -> None:
    """A starting kubelet lists pods late: its empty answers free nothing for ten minutes."""
    node = met(new_node().answer(), "first").share(4).allocate("GPU-0::3").answer().share(1)
    pods, node.pods = node.pods, {}
    met(restarted(node), "second").answer(5).tick(60).answer(5)
    assert node.listed()[-1] == "GPU-0::3"
    assert node.healthy() == ["GPU-0::3"]
    node.pods = pods
    node.answer().tick(700).answer(4)
    assert node.healthy() == ["GPU-0::3"]


def test_the_same_kubelet_frees_at_once_what_ended_while_we_were_down(
    new_node: Callable[..., Any],
) -> None:
    """A kubelet that ran all the time tells the truth, so a short restart costs no ten minutes."""
    node = met(new_node().answer(), "first").share(4).allocate("GPU-0::3").answer().share(1)
    node.pods = {}
    met(restarted(node), "first").answer(4)
    assert node.healthy() == ["GPU-0"]


_JUDGES = (
    HealthPolicy(),
    HealthPolicy(overrides={"xid-48": Action.RECOVER, "xid-79": Action.RESET}),
    HealthPolicy(overrides={"xid-48": Action.REBOOT, "xid-79": Action.RECOVER}),
    HealthPolicy(overrides={"xid-13": Action.RESET, "xid-79": Action.IGNORE}),
    HealthPolicy(enabled=("xid-13",), disabled=("xid-48",)),
)
_KINDS = {
    "recovery-action": Action.RESET,
    "xid-13": Action.EVENT,
    "xid-48": Action.RESET,
    "xid-79": Action.REBOOT,
}
_TIMES = st.integers(0, 60).map(float)
_GPUS = st.sampled_from([DeviceId("GPU-0"), DeviceId("GPU-1")])
_EVIDENCE = st.one_of(
    st.builds(
        lambda kind, device, at: ev.Symptom(
            device=device, kind=kind, detail="", action=_KINDS[kind], at=at
        ),
        st.sampled_from(sorted(_KINDS)),
        _GPUS,
        _TIMES,
    ),
    st.builds(lambda device, at: ev.SeenGood(device=device, at=at), _GPUS, _TIMES),
    st.builds(lambda device, at: ev.WasReset(device=device, at=at), st.none() | _GPUS, _TIMES),
    st.builds(
        lambda device, at: ev.WasReset(device=device, at=at, witness="recovery-action"),
        _GPUS,
        _TIMES,
    ),
)


@given(evidence=st.lists(_EVIDENCE, max_size=12), policy=st.sampled_from(_JUDGES))
@settings(max_examples=500, deadline=None, derandomize=True)
def test_a_restart_changes_no_verdict(
    bare_node: Callable[..., Any], evidence: list[Any], policy: HealthPolicy
) -> None:
    """Whatever was seen and whichever config comes next, a fault stands as long as before."""
    node = bare_node()
    for event in evidence:
        node.inventory = apply(node.inventory, event)
    node.inventory = replace(node.inventory, config=Config(health=policy))
    inventory, listing = state.restore(kept(node), now=100.0)
    for judge in _JUDGES:
        before, after = node.inventory.faults.all(judge), inventory.faults.all(judge)
        # Sightings of what goes on are not written down each, so the last one may be another.
        assert [replace(each, last=0.0) for each in after] == [
            replace(each, last=0.0) for each in before
        ]
    node.inventory = replace(inventory, config=node.inventory.config)
    assert state.snapshot(node.inventory, listing, "", OURS) == kept(node, text="")


@pytest.mark.parametrize(
    ("policy", "evidence"),
    [
        pytest.param(HealthPolicy(), [ev.WasReset(device=DeviceId("GPU-0"), at=15.0)], id="reset"),
        pytest.param(
            HealthPolicy(overrides={"xid-48": Action.RECOVER, "xid-79": Action.RECOVER}),
            [ev.SeenGood(device=DeviceId("GPU-0"), at=30.0)],
            id="good",
        ),
    ],
)
def test_what_goes_on_is_not_ended_by_a_restart(
    bare_node: Callable[..., Any], policy: HealthPolicy, evidence: list[Any]
) -> None:
    """A fault that is seen again and again stands, though something ended another meanwhile."""
    node = bare_node()
    seen = [("xid-79", 8.0), *(("xid-48", at) for at in (5.0, 12.0, 20.0, 28.0))]
    for kind, at in seen:
        symptom = ev.Symptom(
            device=DeviceId("GPU-0"), kind=kind, detail="", action=_KINDS[kind], at=at
        )
        node.inventory = apply(node.inventory, symptom)
    for event in evidence:
        node.inventory = apply(node.inventory, event)
    inventory, _ = state.restore(kept(node), now=100.0)
    assert {fault.kind for fault in inventory.faults.all(policy)} == {
        fault.kind for fault in node.inventory.faults.all(policy)
    }
    assert "xid-48" in {fault.kind for fault in inventory.faults.all(policy)}


@given(evidence=st.lists(_EVIDENCE, max_size=12))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_good_polls_do_not_have_the_state_written(
    bare_node: Callable[..., Any], evidence: list[Any]
) -> None:
    """Once all that can recover did, the polls that go on finding nothing change no state."""
    node = bare_node()
    for event in evidence:
        node.inventory = apply(node.inventory, event)
    states = []
    for at in (1000.0, 1001.0):
        for gpu in ("GPU-0", "GPU-1"):
            node.inventory = apply(node.inventory, ev.SeenGood(device=DeviceId(gpu), at=at))
        states.append(kept(node))
    assert states[0] == states[1]


def test_repeated_sightings_do_not_change_the_state(new_node: Callable[..., Any]) -> None:
    """A fault that is seen each second does not have the file written each second."""
    node = busy(new_node)
    before = kept(node)
    node.now += 1.0
    (fault,) = before.faults.records
    node.fold(
        ev.Symptom(
            device=fault.device,
            kind=fault.kind,
            detail=fault.detail,
            action=fault.action,
            at=node.now,
        )
    )
    assert kept(node) == before


def test_defaults_are_no_last_good_config(new_node: Callable[..., Any]) -> None:
    """With no file ever written there is no text to keep."""
    assert kept(new_node(), text="").config_text is None


def _damaged(text: str) -> Any:
    return lambda path: path.write_text(text)


def _edited(change: Callable[[dict[str, Any]], object]) -> Any:
    def edit(path: Path) -> None:
        content = json.loads(path.read_text().splitlines()[1])
        change(content)
        path.write_bytes(state._sealed(json.dumps(content).encode()))

    return edit


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _large(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(64 * 1024 * 1024)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        pytest.param(Path.unlink, "no state at", id="absent"),
        pytest.param(_damaged(""), "is broken", id="empty"),
        pytest.param(_half, "is broken", id="half"),
        pytest.param(_damaged("[" * 100_000), "is broken", id="deep"),
        pytest.param(_damaged("[]"), "names no version", id="a-list"),
        pytest.param(_edited(lambda c: c.update(known=3)), "known", id="wrong-type"),
        pytest.param(
            _edited(lambda c: c["faults"]["records"][0].update(episodes=[])),
            "never sighted",
            id="a-fault-of-no-time",
        ),
        pytest.param(_damaged('{"version": 2}\n?'), "format 2", id="from-the-future"),
        pytest.param(_damaged('{"version": 1}\n{}'), "not as it was written", id="no-digest"),
        pytest.param(lambda path: path.write_bytes(b"\xff\x00\xfe"), "is broken", id="bytes"),
        pytest.param(
            _edited(lambda c: c["units"]["nvidia.com/gpu"]["GPU-0"].update(wanted="0-9999999999")),
            "no range",
            id="a-billion-units",
        ),
        pytest.param(
            _edited(lambda c: c["identity"].update(plugin_dir="/elsewhere")),
            "plugin_dir was '/elsewhere'",
            id="other-plugin-dir",
        ),
        pytest.param(
            _edited(lambda c: c["identity"].update(machine="h100x8")),
            "machine was 'h100x8' and is ''",
            id="simulated-machine",
        ),
        pytest.param(_folder, "Is a directory", id="a-folder"),
        pytest.param(_pipe, "not a plain file", id="a-pipe"),
        pytest.param(_large, "more than", id="too-large"),
    ],
)
def test_state_that_is_no_help_counts_as_empty(
    new_node: Callable[..., Any], path: Path, damage: Callable[[Path], object], said: str
) -> None:
    """Whatever is wrong with the file costs its content and nothing else, and is said."""
    state.save(path, kept(busy(new_node)))
    damage(path)
    found, note = state.load(path, OURS, BOOT)
    assert found == State(identity=OURS, boot=BOOT)
    assert said in note
    assert str(path) in note
    inventory, listing = state.restore(found)
    assert not inventory.known
    assert not listing.shelves


@given(cut=st.integers(0, 2000), byte=st.integers(0, 255))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_damaged_byte_is_survived(
    new_node: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory, cut: int, byte: int
) -> None:
    """One wrong byte anywhere is noticed; nothing of such a file is believed."""
    path = tmp_path_factory.mktemp("state") / "nvidia.json"
    state.save(path, kept(busy(new_node)))
    data = bytearray(path.read_bytes())
    cut %= len(data)
    assume(data[cut] != byte)
    data[cut] = byte
    path.write_bytes(data)
    found, note = state.load(path, OURS, BOOT)
    assert found == State(identity=OURS, boot=BOOT)
    assert "state ignored" in note


def _refuse(number: int) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize(
    ("call", "number", "said"),
    [
        pytest.param("open", errno.EROFS, "Read-only file system", id="read-only"),
        pytest.param("open", errno.EACCES, "Permission denied", id="no-permission"),
        pytest.param("fsync", errno.ENOSPC, "No space left on device", id="full"),
        pytest.param("fsync", errno.EIO, "Input/output error", id="broken-disk"),
    ],
)
def test_disk_that_cannot_be_written(
    new_node: Callable[..., Any],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    said: str,
) -> None:
    """A failed write leaves the old state whole and nothing beside it, and says what is lost."""
    old = kept(busy(new_node))
    state.save(path, old)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, _refuse(number))
        problem = state.save(path, State(identity=OURS))
    assert said in problem
    assert "writable" in problem
    assert state.load(path, OURS, BOOT) == (old, "")
    assert [entry.name for entry in path.parent.iterdir()] == ["nvidia.json"]


def test_plain_file_in_place_of_the_folder(tmp_path: Path) -> None:
    """A state folder that cannot be made is a problem with a text, not an error."""
    (tmp_path / "state").write_text("")
    problem = state.save(tmp_path / "state" / "nvidia.json", State(identity=OURS))
    assert "cannot be written" in problem


def test_reader_never_sees_half_a_state(new_node: Callable[..., Any], path: Path) -> None:
    """Whoever reads while states are written finds a whole one."""
    written = [kept(busy(new_node), text=f"version: v1 # {n}\n" * (n + 1)) for n in range(2)]
    state.save(path, written[0])
    ending = threading.Event()

    def write() -> None:
        turn = 0
        while not ending.is_set():
            turn += 1
            state.save(path, written[turn % 2])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            found, note = state.load(path, OURS, BOOT)
            assert note == ""
            assert found in written
    finally:
        ending.set()
        writer.join()
