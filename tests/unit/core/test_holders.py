"""Who holds what: answers, Allocates, and their order."""

import pytest

from deviceplugin import events as ev
from deviceplugin.holders import Holders
from deviceplugin.model import ResourceName, UnitId

GPU = ResourceName("nvidia.com/gpu")
UNIT = UnitId("GPU-0::1")


def answer(begun: float, *units: str) -> ev.HoldersAnswered:
    """PodResources lists these units, asked at a time."""
    held = {GPU: frozenset(map(UnitId, units))}
    return ev.HoldersAnswered(begun=begun, held=held, allocatable={}, at=begun + 0.1)


def allocated(at: float, refused: str = "") -> ev.Allocated:
    """The unit was given out, or not."""
    return ev.Allocated(resource=GPU, units=(UNIT,), refused=refused, seconds=0.0, at=at)


def is_held(holders: Holders, now: float = 50.0) -> bool:
    """Whether the unit counts as held."""
    return UNIT in holders.held(now).get(GPU, frozenset())


def folded(*events: ev.HoldersAnswered | ev.Allocated) -> Holders:
    """Fold answers and Allocates."""
    holders = Holders()
    for event in events:
        fold = holders.answered if isinstance(event, ev.HoldersAnswered) else holders.allocated
        holders = fold(event)  # type: ignore[operator]
    return holders


@pytest.mark.parametrize(
    ("events", "held"),
    [
        pytest.param([answer(1, UNIT)], "held", id="listed"),
        pytest.param([answer(1, UNIT), answer(2)], "free", id="listed-then-not"),
        pytest.param([allocated(1)], "held", id="allocated"),
        pytest.param([allocated(1, "no")], "free", id="refused"),
        pytest.param([allocated(1), answer(2), answer(3)], "held", id="two-answers-lack-it"),
        pytest.param([allocated(1), answer(2), answer(3), answer(4)], "free", id="three-lack-it"),
        pytest.param(
            [allocated(5), answer(2), answer(3), answer(4), answer(5)], "held", id="begun-before"
        ),
        pytest.param([allocated(1), answer(2, UNIT), answer(3)], "free", id="shown-then-not"),
        pytest.param(
            [allocated(1), answer(2), answer(3), allocated(3.5), answer(4)], "held", id="again"
        ),
        pytest.param([answer(3, UNIT), answer(2)], "held", id="late-answer-is-dropped"),
    ],
)
def test_held(events: list[ev.HoldersAnswered | ev.Allocated], held: str) -> None:
    """A unit is held while the last answer lists it, and after its Allocate until three lack it."""
    assert is_held(folded(*events)) is (held == "held")


def test_silence_makes_nothing_free() -> None:
    """While PodResources is silent nothing is known, and what was held stays held."""
    holders = folded(answer(1, UNIT)).unavailable("no socket")
    assert not holders.known
    assert is_held(holders)
    assert not holders.lacked_since(0.0)
    assert holders.begun == float("-inf")


def test_answer_of_the_old_kubelet_does_not_count() -> None:
    """A question asked before the kubelet restarted says nothing about the new one."""
    holders = folded(answer(1, UNIT)).kubelet_restarted(at=5.0, hold=600.0)
    late = holders.answered(answer(4))
    assert not late.known
    assert is_held(late)


def test_three_answers_must_come_after() -> None:
    """Answers count against a unit only when all three were asked for after it was withdrawn."""
    holders = folded(answer(1), answer(2), answer(3))
    assert holders.lacked_since(0.5)
    assert not holders.lacked_since(1.0)
