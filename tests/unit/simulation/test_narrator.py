"""What each fact about a node is worth telling."""

from collections.abc import Callable

import pytest

from deviceplugin.simulation.daemon_process import parse
from deviceplugin.simulation.facts import (
    Edited,
    Exited,
    Fact,
    Happening,
    LogLine,
    PodAdmitted,
    Scraped,
)
from deviceplugin.simulation.kubelet import Admission, Change, ChangeKind, Pod
from deviceplugin.simulation.lines import as_json, plain
from deviceplugin.simulation.machine import Machine
from deviceplugin.simulation.names import Names
from deviceplugin.simulation.narrator import Narrator

GPU = "nvidia.com/gpu"
Tell = Callable[..., list[Happening]]


@pytest.fixture
def narrator(machine: Machine) -> Narrator:
    """Narrate the small machine."""
    return Narrator(names=Names.of(machine))


@pytest.fixture
def tell(narrator: Narrator) -> Tell:
    """Tell facts one after the other; returns what the last one is worth."""

    def tell(*facts: Fact) -> list[Happening]:
        return [list(narrator.tell(fact)) for fact in facts][-1]

    return tell


def _listed(at: float, healthy: int, ids: int, resource: str = GPU) -> Change:
    names = [f"unit-{number}" for number in range(ids)]
    return Change(
        kind=ChangeKind.LIST,
        at=at,
        resource=resource,
        ids=frozenset(names),
        healthy=frozenset(names[:healthy]),
    )


def _in_force(at: float) -> LogLine:
    return LogLine(message="config in force", at=at)


_REFUSED = LogLine(message="config refused, the one in force stays", level="error", at=10.4)


def test_a_first_list_tells_the_counts(tell: Tell) -> None:
    """A new resource appears with capacity and allocatable."""
    (told,) = tell(_listed(1, 8, 8))
    assert told.text == "nvidia.com/gpu: capacity 0 → 8, allocatable 0 → 8"
    assert told.fields == {"resource": GPU, "capacity": 8, "allocatable": 8}
    assert not told.bad


def test_an_equal_list_is_not_told(tell: Tell) -> None:
    """The same list again is no change."""
    assert tell(_listed(1, 8, 8), _listed(2, 8, 8)) == []


def test_fewer_healthy_units_are_bad(tell: Tell) -> None:
    """A unit that turns unhealthy is told as something wrong."""
    (told,) = tell(_listed(1, 8, 8), _listed(2, 7, 8))
    assert told.text == "nvidia.com/gpu: capacity 8, allocatable 8 → 7"
    assert told.bad


def test_an_edit_is_timed(tell: Tell, narrator: Narrator) -> None:
    """The first list after an edit tells the milliseconds in between."""
    (told,) = tell(_listed(1, 8, 8), Edited(at=10.0), _in_force(10.1), _listed(10.118, 32, 32))
    assert told.text.endswith(", 118 ms after the edit")
    assert told.fields["after_edit_ms"] == pytest.approx(118, abs=0.1)
    assert narrator.list_ms == pytest.approx(118, abs=0.1)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param([Edited(at=10.0), _in_force(10.1), _listed(10.1, 32, 32)], id="second list"),
        pytest.param([Edited(at=1.0), _in_force(1.1)], id="long after"),
        pytest.param([Edited(at=10.6), _in_force(10.7)], id="before the edit"),
        pytest.param([Edited(at=10.4)], id="a save not read yet"),
        pytest.param([_in_force(10.3), Edited(at=10.4)], id="in force before the save"),
        pytest.param([Edited(at=10.3), _REFUSED], id="a refused save"),
        pytest.param([Edited(at=10.3), _REFUSED, _in_force(10.4)], id="in force without a save"),
    ],
)
def test_other_lists_are_not_timed(tell: Tell, facts: list[Fact]) -> None:
    """A list that no edit caused is told without milliseconds."""
    (told,) = tell(_listed(0.5, 8, 8), *facts, _listed(10.5, 7, 8))
    assert "after_edit_ms" not in told.fields


def test_a_rename_is_timed_for_both_names(tell: Tell, narrator: Narrator) -> None:
    """Each resource that an edit changes has its own time; the first one is remembered."""
    (told,) = tell(
        Edited(at=10.0),
        _in_force(10.1),
        _listed(10.1, 0, 8),
        _listed(10.3, 8, 8, "nvidia.com/other"),
    )
    assert told.fields["after_edit_ms"] == pytest.approx(300, abs=0.1)
    assert narrator.list_ms == pytest.approx(100, abs=0.1)


def test_a_slow_edit_is_timed(tell: Tell) -> None:
    """However long the daemon takes to read an edit, the list right after that is its outcome."""
    (told,) = tell(_listed(1, 8, 8), Edited(at=10.0), _in_force(15.0), _listed(15.1, 32, 32))
    assert told.fields["after_edit_ms"] == pytest.approx(5100, abs=0.1)


def test_pods_are_told_with_their_gpus(tell: Tell, machine: Machine) -> None:
    """An admitted pod is told with the GPUs it got, as people count them."""
    assert machine.nvidia is not None
    first, second = (gpu.uuid for gpu in machine.nvidia.gpus)
    admission = Admission(
        pod=Pod.asking("train-1", **{GPU: 2}),
        admitted=True,
        devices={"main": {GPU: (f"{second}::3", first)}},
        seconds=0.0012,
    )
    (told,) = tell(PodAdmitted(admission=admission))
    assert told.text == "pod train-1 got GPU 0, GPU 1::3 in 1.2 ms"
    assert told.fields["units"] == [f"{second}::3", first]


def test_a_refused_pod_is_told_with_the_reason(tell: Tell) -> None:
    """The reason that the pod's owner would read is in the line."""
    admission = Admission(
        pod=Pod.asking("p", **{GPU: 2}),
        admitted=False,
        reason="UnexpectedAdmissionError",
        message="ask for one",
    )
    (told,) = tell(PodAdmitted(admission=admission))
    assert told.bad
    assert told.text == "pod p refused, UnexpectedAdmissionError: ask for one"


def test_log_lines_speak_of_gpus(tell: Tell, machine: Machine) -> None:
    """A line of the daemon is told with its fields, ids replaced by names; warnings are bad."""
    assert machine.nvidia is not None
    uuid = machine.nvidia.gpus[1].uuid
    line = LogLine(
        message="device is unhealthy", level="warning", fields={"device": uuid, "reason": "lost"}
    )
    (told,) = tell(line)
    assert (told.event, told.text) == ("daemon", "device is unhealthy device=GPU 1 reason=lost")
    assert told.bad


def test_a_refused_config_is_a_config_event(tell: Tell) -> None:
    """The daemon's refusal of an edit is told with file, line and remedy."""
    problem = "nvidia.yaml:6: replicas: found 0; write 1 to 65536"
    (told,) = tell(LogLine(message="config refused", level="error", fields={"problem": problem}))
    assert told.event == "config"
    assert problem in told.text


@pytest.mark.parametrize(
    "fact",
    [
        pytest.param(LogLine(message="list sent"), id="the kubelet told it"),
        pytest.param(LogLine(message="allocated"), id="the pod told it"),
        pytest.param(Scraped(), id="metrics"),
        pytest.param(Edited(at=1.0), id="an edit without an outcome yet"),
        pytest.param(Change(kind=ChangeKind.ADMITTED, pod="p"), id="the admission tells it"),
    ],
)
def test_facts_not_worth_a_line(tell: Tell, fact: Fact) -> None:
    """What another fact tells better is not told twice."""
    assert tell(fact) == []


def test_a_dead_daemon_leaves_its_last_words(tell: Tell) -> None:
    """The end of the daemon is told with its code and its last log lines."""
    (told,) = tell(Exited(code=1, last=(LogLine(message="oh"),)))
    assert told.fields == {"vendor": "", "code": 1, "last": ["oh"]}
    assert told.bad


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            '{"time": "t", "level": "error", "logger": "l", "message": "m", "a": 1}',
            LogLine(message="m", level="error", fields={"a": 1}),
            id="JSON",
        ),
        pytest.param(
            "Fatal Python error\n",
            LogLine(message="Fatal Python error", level="warning"),
            id="text",
        ),
        pytest.param("[1]\n", LogLine(message="[1]", level="warning"), id="JSON of another kind"),
    ],
)
def test_log_lines_are_parsed(line: str, expected: LogLine) -> None:
    """A JSON line gives message and fields; any other line is kept whole, as a warning."""
    assert parse(line) == expected


def test_happenings_as_lines() -> None:
    """A happening is one line, for people and for programs."""
    told = Happening(event="pod", text="é", bad=True, fields={"pod": "p"}, at=3.5)
    assert plain(told, 1.0) == "   2.500s ! é"
    assert as_json(told, 1.0) == (
        '{"at": 2.5, "event": "pod", "text": "é", "bad": true, "pod": "p"}'
    )
