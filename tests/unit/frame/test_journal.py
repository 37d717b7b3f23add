"""Log lines: one for each change, none for each poll, in both forms."""

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from deviceplugin import events as ev
from deviceplugin import logs
from deviceplugin.config.rules import Config, Problem
from deviceplugin.model import (
    Action,
    BackendState,
    Device,
    DeviceId,
    Fault,
    ResourceName,
    UnitId,
)
from deviceplugin.observe.journal import Journal

GPU = DeviceId("GPU-1")
DEVICE = Device(
    id=GPU, resource=ResourceName("nvidia.com/gpu"), index=3, pci_address="0000:1b:00.0"
)
REFUSED = ev.ConfigRefused(
    source="f",
    problems=(Problem(file="f", line=1, path="", found="x", remedy="y"),),
    at=1,
)
FAULT = Fault(
    device=GPU, kind="xid-79", detail="fell off the bus", since=1, last=1, action=Action.REBOOT
)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All log lines of the test, as JSON."""
    root = logging.getLogger()
    handlers, level, stream = list(root.handlers), root.level, io.StringIO()
    logs.configure("json", "info", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(log: io.StringIO) -> list[dict[str, object]]:
    """The lines so far, parsed."""
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_a_fault_is_said_when_it_comes_and_when_it_goes(log: io.StringIO) -> None:
    """Repeated verdicts say nothing; a fault and its end are a line each, with all its names."""
    journal = Journal()
    for faults in ({}, {GPU: FAULT}, {GPU: FAULT}, {}):
        journal.verdicts(faults, {GPU: DEVICE})
    said = lines(log)
    assert [line["message"] for line in said] == ["device is unhealthy", "device is healthy again"]
    names = {"device": GPU, "index": 3, "pci": "0000:1b:00.0"}
    assert said[0] | names | {"reason": "xid-79", "clears_by": "reboot"} == said[0]
    assert said[1] | names | {"was": "xid-79"} == said[1]


def test_the_end_of_a_fault_names_all_there_were(log: io.StringIO) -> None:
    """A GPU that was lost while it waited for a reset was ill of both."""
    journal = Journal()
    for kind in ("xid-95", "lost"):
        journal.verdicts({GPU: replace(FAULT, kind=kind)}, {})
    journal.event(ev.WasReset(device=GPU, at=3))
    journal.verdicts({}, {})
    said = lines(log)
    assert [line["message"] for line in said[2:]] == ["device was reset", "device is healthy again"]
    assert said[3]["was"] == "xid-95, lost"


@pytest.mark.parametrize(
    ("action", "sick", "count"),
    [
        pytest.param(Action.EVENT, False, 1, id="harmless-is-said-once-a-minute"),
        pytest.param(Action.IGNORE, False, 0, id="ignored"),
        pytest.param(Action.RESET, False, 0, id="the-verdict-says-it"),
        pytest.param(Action.RESET, True, 1, id="another-one-on-a-sick-device"),
    ],
)
def test_a_symptom_that_changes_no_verdict_is_said(
    log: io.StringIO, action: Action, *, sick: bool, count: int
) -> None:
    """What is only counted is in the log too, and what a poll sees each second is one line."""
    journal = Journal()
    if sick:
        journal.verdicts({GPU: FAULT}, {})
    for at in (1.0, 2.0, 3.0):
        symptom = ev.Symptom(device=GPU, kind="xid-94", detail="", action=action, at=at)
        journal.symptom(symptom, action, DEVICE)
    assert sum(line["message"] == "symptom" for line in lines(log)) == count


def test_a_first_config_that_is_wrong_says_that_nothing_is_served(log: io.StringIO) -> None:
    """Where no config is in force, none can stay."""
    journal = Journal()
    journal.event(REFUSED)
    journal.event(ev.ConfigAccepted(config=Config(), text="", at=1))
    journal.event(REFUSED)
    messages = [line["message"] for line in lines(log) if line["level"] == "error"]
    assert messages == [
        "config refused, none is in force: nothing is served",
        "config refused, the one in force stays",
    ]


def test_polls_say_only_what_changed(log: io.StringIO) -> None:
    """Scans that repeat are silent, and so is what is still unmet or still waited for."""
    journal = Journal()
    for _ in range(3):
        journal.event(ev.Scanned(scan=ev.Scan(problems=("GPU 3: lost",)), seconds=0.1, at=1))
        journal.unmet(("x needs y",))
        journal.waiting("the driver")
    assert [line["message"] for line in lines(log)] == [
        "a device is not served",
        "config entry is unmet on this node",
        "the first list waits",
    ]


@pytest.mark.parametrize(
    ("event", "level", "message"),
    [
        pytest.param(
            ev.ConfigAccepted(config=Config(), text="", at=1),
            "info",
            "config in force",
            id="config",
        ),
        pytest.param(
            REFUSED,
            "error",
            "config refused, none is in force: nothing is served",
            id="refused",
        ),
        pytest.param(
            ev.BackendChanged(state=BackendState.DRIVER_HUNG, detail="", at=1),
            "warning",
            "driver state",
            id="driver",
        ),
        pytest.param(
            ev.Allocated(
                resource=ResourceName("r/x"), units=(UnitId("u"),), refused="", seconds=0.001, at=1
            ),
            "info",
            "allocated",
            id="allocated",
        ),
        pytest.param(
            ev.StateKept(problem="disk full", at=1),
            "warning",
            "state cannot be written, a restart would begin without it",
            id="state",
        ),
    ],
)
def test_a_change_is_one_line_of_its_level(
    log: io.StringIO, event: ev.Event, level: str, message: str
) -> None:
    """Each kind of change is one line whose level matches who must act."""
    Journal().event(event)
    assert [(line["level"], line["message"]) for line in lines(log)] == [(level, message)]


def test_text_lines_quote_what_would_break_them() -> None:
    """The text form stays one ``key=value`` line whatever a field holds."""
    record = logging.makeLogRecord(
        {"name": "deviceplugin.x", "levelname": "INFO", "msg": "done", "why": 'a "b"\nc', "n": 3}
    )
    line = logs.TextFormatter().format(record)
    assert line.endswith('INFO    x: done why="a \\"b\\"\\nc" n=3')
    assert "\n" not in line


def test_what_a_peer_sent_wrong_is_one_line(log: io.StringIO) -> None:
    """Bytes that are no message make gRPC log a traceback at each call; here it is a warning."""
    try:
        int("no number")
    except ValueError:
        logging.getLogger("grpc._common").exception("Exception deserializing message!")
    (line,) = lines(log)
    assert (line["level"], "exception" in line) == ("warning", False)
    assert line["message"] == "another process sent bytes that are no message"


def test_our_own_errors_inside_grpc_keep_their_traceback(log: io.StringIO) -> None:
    """What gRPC caught in a stream of ours is an error of ours."""
    try:
        int("no number")
    except ValueError:
        logging.getLogger("grpc._server").exception("Exception iterating responses: no number")
    (line,) = lines(log)
    assert line["level"] == "error"
    assert "Traceback" in line["exception"]
