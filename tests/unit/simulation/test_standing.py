"""What is wrong with the config stays in view until it is right."""

from collections.abc import Callable

import pytest

from deviceplugin.simulation.facts import Edited, Fact, LogLine
from deviceplugin.simulation.standing import Standing

EDITED = Edited(at=1.0)
IN_FORCE = LogLine(message="config in force")
ALL_MET = LogLine(message="every config entry is met on this node")
SICK = LogLine(message="device is unhealthy", level="warning")

Stand = Callable[..., Standing]


def _refused(problem: str) -> LogLine:
    fields = {"problem": problem}
    return LogLine(message="config refused, the one in force stays", level="error", fields=fields)


def _unmet(reason: str, line: str = "") -> LogLine:
    fields = {"reason": reason, "line": line}
    return LogLine(message="config entry is unmet on this node", level="warning", fields=fields)


@pytest.fixture
def stand() -> Stand:
    """Fold facts into what stands."""

    def stand(*facts: Fact) -> Standing:
        standing = Standing()
        for fact in facts:
            standing.take(fact)
        return standing

    return stand


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param([EDITED, _refused("a"), _refused("b")], ["a", "b"], id="all of one save"),
        pytest.param([_refused("a"), *[LogLine(message="x")] * 99], ["a"], id="much else since"),
        pytest.param([_refused("a"), EDITED], ["a"], id="a save not read yet"),
        pytest.param([_refused("a"), EDITED, _refused("b")], ["b"], id="another wrong save"),
        pytest.param([_refused("a"), EDITED, IN_FORCE], [], id="a good save"),
        pytest.param([_refused("a"), ALL_MET], ["a"], id="about the config in force"),
    ],
)
def test_a_refusal_stands(stand: Stand, facts: list[Fact], expected: list[str]) -> None:
    """The problems of the newest refused save stand until a config is in force."""
    assert stand(*facts).refused.lines == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param([IN_FORCE, _unmet("a"), _unmet("b")], ["a", "b"], id="all of one config"),
        pytest.param(
            [_unmet("a", "1 of 1"), _unmet("b", "1 of 2"), _unmet("c", "2 of 2")],
            ["b", "c"],
            id="a newer set",
        ),
        pytest.param([_unmet("a"), IN_FORCE], ["a"], id="the same in the next config"),
        pytest.param([_unmet("a"), IN_FORCE, _unmet("b")], ["b"], id="others in the next config"),
        pytest.param([_unmet("a"), _unmet("b"), SICK, _unmet("b")], ["b"], id="a device changed"),
        pytest.param([_unmet("a"), EDITED, _refused("x")], ["a"], id="a refused save"),
        pytest.param([_unmet("a"), ALL_MET], [], id="all are met"),
    ],
)
def test_unmet_entries_stand(stand: Stand, facts: list[Fact], expected: list[str]) -> None:
    """Entries that the node cannot meet stand until others are told, or all are met."""
    assert stand(*facts).unmet.lines == expected
