"""Steps: how they are written, and what they do to the driver."""

import pytest

from deviceplugin.simulation.driver_state import DriverState, GpuState, Notice, after
from deviceplugin.simulation.sections import TextInvalidError
from deviceplugin.simulation.timeline import Step, Verb, read_line
from deviceplugin.vendors.nvidia.door import Code

NOW = 100.0
START = DriverState(gpus=(GpuState(), GpuState()))


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("{xid: 79, gpu: 1}", Step(verb=Verb.XID, gpu=1, number=79)),
        ("{at: 2.5, lost: 0}", Step(verb=Verb.LOST, gpu=0, at=2.5)),
        ("hang: 5", Step(verb=Verb.HANG, number=5)),
        ("{hang: 0.5, gpu: 1}", Step(verb=Verb.HANG, gpu=1, number=0.5)),
        ('{"error": 999}', Step(verb=Verb.ERROR, number=999)),
        ("{latency: 30, gpu: 0}", Step(verb=Verb.LATENCY, gpu=0, number=30)),
        ("{recovery: reboot, gpu: 0}", Step(verb=Verb.RECOVERY, gpu=0, number=2)),
        ("recover: 1", Step(verb=Verb.RECOVER, gpu=1)),
        ("recover: all", Step(verb=Verb.RECOVER)),
        ("{reset: 1, repeat: 60}", Step(verb=Verb.RESET, gpu=1, repeat=60)),
        ("unplug: 0", Step(verb=Verb.UNPLUG, gpu=0)),
        ("plug: 0", Step(verb=Verb.PLUG, gpu=0)),
        ("driver: gone", Step(verb=Verb.DRIVER, word="gone")),
    ],
    ids=str,
)
def test_steps_are_read(line: str, step: Step) -> None:
    """Each verb is understood, in YAML and in JSON."""
    assert read_line(line, {"nvidia": 2}, file="c", line=1) == step


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        pytest.param("{xid: 79}", "index of a GPU", id="XID of no GPU"),
        pytest.param("{xid: 0, gpu: 1}", "1 to 999", id="XID 0"),
        pytest.param("{lost: 2}", "0 to 1", id="GPU not there"),
        pytest.param("{lost: yes}", "0 to 1", id="a truth value for a GPU"),
        pytest.param("{lost: 0, plug: 0}", "write one of", id="two verbs"),
        pytest.param("{at: 5}", "write one of", id="no verb"),
        pytest.param("{driver: back, gpu: 1}", "write one of", id="driver of a GPU"),
        pytest.param("{driver: off}", "gone, back, mismatch", id="driver state unknown"),
        pytest.param("{recovery: 1, gpu: 0}", "none, reset", id="recovery by number"),
        pytest.param("{lost: 0, at: -1}", "from 0", id="before the start"),
        pytest.param("{lost: 0, repeat: 0}", "from 0.1", id="repeat without pause"),
        pytest.param("{lost: 0, att: 1}", "write at", id="misspelt key"),
        pytest.param("lost", "write a mapping", id="a word"),
        pytest.param("{", "YAML", id="not YAML"),
    ],
)
def test_wrong_steps_are_told(line: str, remedy: str) -> None:
    """A wrong line is refused with its number and what to write."""
    with pytest.raises(TextInvalidError, match=r"^c:7:") as caught:
        read_line(line, {"nvidia": 2}, file="c", line=7)
    assert remedy in str(caught.value)


def _after(*lines: str) -> tuple[DriverState, tuple[Notice, ...]]:
    state, notices = START, ()
    for line in lines:
        step = read_line(line, {"nvidia": 2}, file="c", line=1)
        state, notices = after(state, step, NOW)
    return state, notices


def test_an_xid_is_only_reported() -> None:
    """An XID changes nothing but is reported, so that its meaning is the daemon's to judge."""
    assert _after("{xid: 79, gpu: 1}") == (START, (Notice(gpu=1, kind="xid", xid=79),))


def test_lost_is_one_gpu_alone() -> None:
    """A lost GPU fails, the other one is untouched."""
    state, notices = _after("lost: 1")
    assert state.gpus[1].ailment.error_at(NOW) == Code.GPU_IS_LOST
    assert state.gpus[0] == GpuState()
    assert notices == ()


@pytest.mark.parametrize("line", ["recover: 1", "recover: all"])
def test_recover_takes_everything_back(line: str) -> None:
    """Recovery ends error, hang, latency and the driver's demand."""
    ills = ("lost: 1", "{hang: 5, gpu: 1}", "{latency: 9, gpu: 1}", "{recovery: reset, gpu: 1}")
    assert _after(*ills, line)[0] == START


def test_a_reset_shows_as_loss_for_a_while() -> None:
    """A GPU that is being reset is lost, then good, and no demand is left."""
    state, _ = _after("{recovery: reset, gpu: 0}", "reset: 0")
    assert state.gpus[0].recovery == 0
    assert state.gpus[0].ailment.error_at(NOW + 1) == Code.GPU_IS_LOST
    assert state.gpus[0].ailment.error_at(NOW + 3) is None


def test_a_demand_is_reported() -> None:
    """A new recovery action is in the state and is an event too."""
    state, notices = _after("{recovery: reboot, gpu: 0}")
    assert state.gpus[0].recovery == 2
    assert notices == (Notice(gpu=0, kind="recovery-action"),)


@pytest.mark.parametrize(
    ("word", "code"),
    [("gone", Code.DRIVER_NOT_LOADED), ("mismatch", Code.LIB_RM_VERSION_MISMATCH)],
)
def test_a_driver_goes_and_comes_back(word: str, code: Code) -> None:
    """A driver that is gone or replaced refuses; back again, it is another load."""
    gone, _ = _after(f"driver: {word}")
    assert gone.refusal == code
    back, _ = _after(f"driver: {word}", "driver: back")
    assert back.refusal is None
    assert back.loads == 1


def test_a_plugged_gpu_is_a_good_one() -> None:
    """A GPU that is pulled out and put in again has lost its faults."""
    pulled, _ = _after("lost: 0", "unplug: 0")
    assert not pulled.gpus[0].plugged
    assert _after("lost: 0", "unplug: 0", "plug: 0")[0] == START


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{xid: 79, gpu: 1}", "xid 79 GPU 1"),
        ("{lost: 0, at: 3}", "lost GPU 0"),
        ("driver: gone", "driver gone"),
        ("hang: 0.5", "hang 0.5"),
        ("{recovery: drain, gpu: 0}", "recovery drain GPU 0"),
    ],
)
def test_a_step_says_what_it_does(line: str, text: str) -> None:
    """The log names a step in words."""
    assert str(read_line(line, {"nvidia": 2}, file="c", line=1)) == text
