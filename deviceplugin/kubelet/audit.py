"""Finds a rival under our name, or a stream that the kubelet does not listen to. Pure.

PodResources tells what the kubelet would hand out. When that is twice not what we list,
somebody else's list counts, or nobody's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deviceplugin.events import HoldersAnswered
from deviceplugin.kubelet.streams import SentList
from deviceplugin.model import ResourceName, UnitId

_STRIKES = 2
_SHOWN = 3

Lists = Mapping[ResourceName, SentList | None]
"""The last list sent on an open stream, by resource; None where no stream is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditState:
    """What the next audit needs to know: findings in a row, and the last repairs."""

    strikes: Mapping[ResourceName, int] = field(default_factory=dict)
    repaired: Mapping[ResourceName, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRules:
    """Bounds in seconds: age of a list that counts, and between repairs of one resource."""

    settle: float
    interval: float


def audit(
    state: AuditState, rules: AuditRules, lists: Lists, answer: HoldersAnswered
) -> tuple[AuditState, Mapping[ResourceName, str]]:
    """Judge one answer; returns the next state and what to repair, with the reason."""
    findings = {name: _finding(rules, sent, answer, name) for name, sent in lists.items()}
    strikes = {name: state.strikes.get(name, 0) + 1 for name, found in findings.items() if found}
    repairs = {
        name: findings[name]
        for name, count in strikes.items()
        if count >= _STRIKES and _is_due(state, rules, name, answer.at)
    }
    repaired = {**state.repaired, **dict.fromkeys(repairs, answer.at)}
    left = {name: count for name, count in strikes.items() if name not in repairs}
    return replace(state, strikes=left, repaired=repaired), repairs


def _is_due(state: AuditState, rules: AuditRules, name: ResourceName, now: float) -> bool:
    last = state.repaired.get(name)
    return last is None or now - last >= rules.interval


def _finding(
    rules: AuditRules, sent: SentList | None, answer: HoldersAnswered, name: ResourceName
) -> str:
    # The kubelet may not have taken in a younger list when it was asked.
    if sent is None or sent.at > answer.begun - rules.settle:
        return ""
    known = answer.allocatable.get(name, frozenset())
    missing = {unit.id for unit in sent.units if unit.healthy} - known
    foreign = known - {unit.id for unit in sent.units if unit.healthy}
    if not missing and not foreign:
        return ""
    return (
        f"the kubelet lacks {_some(missing)} of our healthy units and has {_some(foreign)} others"
    )


def _some(ids: set[UnitId] | frozenset[UnitId]) -> str:
    shown = ", ".join(sorted(ids)[:_SHOWN])
    return f"{len(ids)} ({shown}{', …' if len(ids) > _SHOWN else ''})" if ids else "none"
