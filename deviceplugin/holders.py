"""Who holds which unit, as far as PodResources and our own Allocates tell.

There is no Deallocate: a unit is free when the kubelet stops listing it. A claim is
a unit under a resource name, since a rename lists the same unit under two names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from deviceplugin.events import Allocated, HoldersAnswered
from deviceplugin.model import ResourceName, UnitId

Claim = tuple[ResourceName, UnitId]

ENOUGH = 3
"""Answers that must lack a unit: the kubelet lists a pod only some time after its Allocate."""

NEVER = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one PodResources answer says; things later than ``begun`` are not in it."""

    begun: float
    held: Mapping[ResourceName, frozenset[UnitId]]

    def lists(self, claim: Claim) -> bool:
        """Whether a pod holds it."""
        return claim[1] in self.held.get(claim[0], frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """An Allocate that no answer has shown yet."""

    at: float
    lacked: int = 0  # answers begun later that do not list it


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Held before the kubelet, or we, restarted; a starting kubelet may list pods late."""

    until: float
    listed: bool = False  # by the new kubelet


def remembered(claims: Iterable[Claim], until: float) -> "Holders":
    """Begin with what was held when the last process ended; whose kubelet answers is open."""
    return Holders(kept={claim: Kept(until=until) for claim in claims})


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """Folded answers and Allocates.

    Attributes:
        known: the newest question was answered. While False nothing counts as free.
        why: the reason while it is not.
        answers: the newest three of this kubelet, oldest first.
        restarted: when this kubelet came.

    """

    known: bool = False
    why: str = "PodResources was not asked yet"
    answers: tuple[Answer, ...] = ()
    grants: Mapping[Claim, Grant] = field(default_factory=dict)
    kept: Mapping[Claim, Kept] = field(default_factory=dict)
    restarted: float = NEVER

    @property
    def proven(self) -> bool:
        """Whether this kubelet has listed all that was held before it came, or let it lapse."""
        return all(kept.listed for kept in self.kept.values())

    @property
    def begun(self) -> float:
        """When the newest answer was asked for; -inf when there is none or it does not count."""
        return self.answers[-1].begun if self.known and self.answers else NEVER

    def held(self, now: float) -> Mapping[ResourceName, frozenset[UnitId]]:
        """All units that a pod may hold."""
        units: dict[ResourceName, set[UnitId]] = {}
        if self.answers:
            units = {name: set(held) for name, held in self.answers[-1].held.items()}
        for name, unit in (*self.grants, *self._kept(now)):
            units.setdefault(name, set()).add(unit)
        return {name: frozenset(held) for name, held in units.items()}

    def claims(self) -> frozenset[Claim]:
        """All that a pod may hold, what is only kept included; for a restart of ours."""
        listed = _claims(self.answers[-1].held) if self.answers else []
        return frozenset([*listed, *self.grants, *self.kept])

    def lacked_since(self, since: float) -> bool:
        """Whether enough answers are there, all asked for after ``since``."""
        return self.known and len(self.answers) == ENOUGH and self.answers[0].begun > since

    def lacked(self, claim: Claim) -> bool:
        """Whether none of the kept answers lists the claim."""
        return not any(answer.lists(claim) for answer in self.answers)

    def next_change(self, now: float) -> float | None:
        """When a claim kept over a kubelet restart lapses by time alone."""
        return min((kept.until for kept in self.kept.values() if kept.until > now), default=None)

    def answered(self, event: HoldersAnswered) -> "Holders":
        """Fold an answer; one older than the newest is dropped."""
        answer = Answer(begun=event.begun, held=event.held)
        if event.begun <= max(self.restarted, *(each.begun for each in self.answers), NEVER):
            return self
        return replace(
            self,
            known=True,
            why="",
            answers=(*self.answers, answer)[-ENOUGH:],
            grants=_ungranted(self.grants, answer),
            kept=_unkept(self.kept, answer, event.at),
        )

    def unavailable(self, why: str) -> "Holders":
        """Note that nobody's units may be dropped for now."""
        return replace(self, known=False, why=why)

    def allocated(self, event: Allocated) -> "Holders":
        """Fold an Allocate; a refused one holds nothing."""
        if event.refused:
            return self
        granted = {(event.resource, unit): Grant(at=event.at) for unit in event.units}
        return replace(self, grants={**self.grants, **granted})

    def kubelet_restarted(self, at: float, hold: float) -> "Holders":
        """Keep what is held for ``hold`` seconds, and believe only the new kubelet from now on."""
        held = _claims(self.held(at))
        return Holders(
            why="the kubelet restarted",
            kept={claim: Kept(until=at + hold) for claim in held},
            restarted=at,
        )

    def kubelet_met(self, at: float, hold: float, *, same: bool) -> "Holders":
        """Meet the first kubelet after a start of ours.

        One that is the ``same`` as before our restart tells the truth about what was held
        then, so three answers that lack a unit free it. Another is a kubelet restart, except
        that answers which came before this news still count: they may well be its own.
        """
        if same:
            grants = {claim: Grant(at=at) for claim in self.kept}
            return replace(self, kept={}, grants={**grants, **self.grants})
        return replace(self, kept=self.kubelet_restarted(at, hold).kept)

    def _kept(self, now: float) -> list[Claim]:
        return [claim for claim, kept in self.kept.items() if kept.until > now]


def _claims(held: Mapping[ResourceName, Iterable[UnitId]]) -> list[Claim]:
    return [(name, unit) for name, units in held.items() for unit in units]


def _ungranted(grants: Mapping[Claim, Grant], answer: Answer) -> Mapping[Claim, Grant]:
    left = {}
    for claim, grant in grants.items():
        if answer.begun <= grant.at:
            left[claim] = grant
        elif not answer.lists(claim) and grant.lacked + 1 < ENOUGH:
            left[claim] = replace(grant, lacked=grant.lacked + 1)
    return left


def _unkept(kept: Mapping[Claim, Kept], answer: Answer, now: float) -> Mapping[Claim, Kept]:
    left = {}
    for claim, each in kept.items():
        listed = answer.lists(claim)
        if each.until > now and (listed or not each.listed):
            left[claim] = replace(each, listed=listed)
    return left
