"""The audit of PodResources' answers against our lists."""

from collections.abc import Iterable

import pytest

from deviceplugin.events import HoldersAnswered
from deviceplugin.kubelet.audit import AuditRules, AuditState, audit
from deviceplugin.kubelet.streams import SentList
from deviceplugin.model import DeviceId, ResourceName, Unit, UnitId

GPU = ResourceName("nvidia.com/gpu")
RULES = AuditRules(settle=3.0, interval=300.0)


def sent(healthy: str, unhealthy: str = "", at: float = 0.0) -> SentList:
    """List units of one letter each."""
    units = [(name, True) for name in healthy] + [(name, False) for name in unhealthy]
    return SentList(
        units=tuple(Unit(id=UnitId(n), device=DeviceId(n), healthy=good) for n, good in units),
        at=at,
    )


def answer(allocatable: str, begun: float) -> HoldersAnswered:
    """Answer that these units can be had."""
    ids = frozenset(UnitId(name) for name in allocatable)
    return HoldersAnswered(
        begun=begun, held={}, allocatable={GPU: ids} if ids else {}, at=begun + 0.1
    )


def repairs(
    lists: Iterable[SentList | None], answers: Iterable[HoldersAnswered], rules: AuditRules = RULES
) -> list[str]:
    """Audit one answer after the other; returns what each one led to."""
    state, found = AuditState(), []
    for each, given in zip(lists, answers, strict=True):
        state, wanted = audit(state, rules, {GPU: each}, given)
        found.append(wanted.get(GPU, ""))
    return found


@pytest.mark.parametrize(
    ("listed", "allocatable"),
    [
        pytest.param(sent("abc"), "abc", id="the same"),
        pytest.param(sent("ab", "c"), "ab", id="an unhealthy one is not handed out"),
        pytest.param(sent(""), "", id="nothing listed"),
        pytest.param(sent("", "abc"), "", id="all unhealthy"),
    ],
)
def test_agreement_is_left_alone(listed: SentList, allocatable: str) -> None:
    """What the kubelet hands out is what we list as healthy: nothing to do."""
    found = repairs([listed] * 3, [answer(allocatable, begun) for begun in (10, 20, 30)])
    assert found == ["", "", ""]


@pytest.mark.parametrize(
    ("listed", "allocatable", "words"),
    [
        pytest.param(sent("abc"), "ab", "lacks 1 (c)", id="one missing"),
        pytest.param(sent("abcd"), "", "lacks 4 (a, b, c, …)", id="none known"),
        pytest.param(sent("a"), "ax", "has 1 (x) others", id="a foreign one"),
        pytest.param(sent("a", "b"), "ab", "has 1 (b) others", id="an unhealthy one handed out"),
    ],
)
def test_second_finding_in_a_row_repairs(listed: SentList, allocatable: str, words: str) -> None:
    """Once may be chance; twice is a rival or a stream that nobody hears."""
    first, second = repairs([listed] * 2, [answer(allocatable, begun) for begun in (10, 20)])
    assert first == ""
    assert words in second


def test_a_good_answer_in_between_starts_anew() -> None:
    """Findings count only in a row."""
    answers = [answer(ids, begun) for ids, begun in (("", 10), ("ab", 20), ("", 30))]
    assert repairs([sent("ab")] * 3, answers) == ["", "", ""]


def test_young_lists_do_not_count() -> None:
    """A list sent shortly before the question may not be in the answer."""
    lists = [sent("ab", at=8.0), sent("ab", at=18.0)]
    assert repairs(lists, [answer("", 10.0), answer("", 20.0)]) == ["", ""]


def test_without_stream_nothing_is_judged() -> None:
    """A resource that is being registered anew anyway is not audited."""
    assert repairs([sent("ab"), None, sent("ab")], [answer("", b) for b in (10, 20, 30)]) == [
        "",
        "",
        "",
    ]


def test_repairs_keep_their_distance() -> None:
    """At most one repair in five minutes, and then again two findings for the next."""
    times = list(range(10, 700, 10))
    found = repairs([sent("ab")] * len(times), [answer("", float(begun)) for begun in times])
    repaired = [begun for begun, words in zip(times, found, strict=True) if words]
    assert repaired == [20, 320, 620]


def test_resources_are_judged_apart() -> None:
    """One resource's finding is not another's."""
    other = ResourceName("nvidia.com/other")
    state = AuditState()
    for begun in (10.0, 20.0):
        state, wanted = audit(state, RULES, {GPU: sent("a"), other: sent("x")}, answer("a", begun))
    assert set(wanted) == {other}
