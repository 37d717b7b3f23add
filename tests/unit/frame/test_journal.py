"""Log lines: one for each change, none for each poll, in both forms."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from deviceplugin import events as ev
from deviceplugin import logs
from deviceplugin.config.rules import Config, Problem
from deviceplugin.model import Action, BackendState, DeviceId, Fault, ResourceName, UnitId
from deviceplugin.observe.journal import Journal

GPU = DeviceId("GPU-1")
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
    """Repeated verdicts say nothing; a fault and its end are a line each, with the reason."""
    journal = Journal()
    for faults in ({}, {GPU: FAULT}, {GPU: FAULT}, {}):
        journal.verdicts(faults)
    said = lines(log)
    assert [line["message"] for line in said] == ["device is unhealthy", "device is healthy again"]
    assert said[0] | {"device": GPU, "reason": "xid-79", "clears_by": "reboot"} == said[0]


def test_polls_say_only_what_changed(log: io.StringIO) -> None:
    """Scans that repeat are silent, and so is what is still unmet or still waited for."""
    journal = Journal()
    for _ in range(3):
        journal.event(ev.Scanned(scan=ev.Scan(problems=("GPU 3: lost",)), seconds=0.1, at=1))
        journal.unmet(("x needs y",))
        journal.waiting("the driver")
    assert [line["message"] for line in lines(log)] == [
        "a device did not answer",
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
            ev.ConfigRefused(
                source="f",
                problems=(Problem(file="f", line=1, path="", found="x", remedy="y"),),
                at=1,
            ),
            "error",
            "config refused, the one in force stays",
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
