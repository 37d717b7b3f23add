"""Turns facts about a node into the lines of its story; says nothing twice."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from deviceplugin.config import dialects
from deviceplugin.simulation.facts import (
    Edited,
    Exited,
    Fact,
    Happening,
    LogLine,
    PodAdmitted,
    Scraped,
)
from deviceplugin.simulation.kubelet import Change, ChangeKind
from deviceplugin.simulation.names import Names

logger = logging.getLogger(__name__)

EDIT_SECONDS = 1.0
"""The first list of each resource counts as an edit's outcome so long after it is in force."""

_TOLD_OTHERWISE = frozenset({"list sent", "allocated", "registered"})
_KUBELET_KINDS = {
    ChangeKind.STARTED: "kubelet started",
    ChangeKind.STOPPED: "kubelet stopped",
    ChangeKind.CRASHED: "kubelet crashed",
    ChangeKind.REGISTERED: "registered",
    ChangeKind.REFUSED: "registration refused",
    ChangeKind.DROPPED: "dropped",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The newest list of a resource."""

    ids: frozenset[str] = frozenset()
    healthy: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Edit:
    """The last edit of a vendor's config: when, when it came into force, lists credited to it."""

    edited: float | None = None
    in_force: float | None = None
    answered: set[str] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Narrator:
    """Remembers just enough to tell what each fact changed.

    Attributes:
        vendors: those with a daemon on this node; named in the text where there are several.
        list_ms: milliseconds from the last edit to the first new list.

    """

    names: Names
    vendors: Sequence[str] = ("",)
    list_ms: float | None = None
    _listed: dict[str, Listed] = field(default_factory=dict)
    _edits: dict[str, _Edit] = field(default_factory=dict)

    def tell(self, fact: Fact) -> Iterator[Happening]:
        """Return what a fact is worth telling."""
        match fact:
            case Edited(at=at, vendor=vendor):
                self._edits[vendor] = _Edit(edited=at)
            case Change(kind=ChangeKind.LIST):
                yield from self._list(fact)
            case Change():
                yield from self._kubelet(fact)
            case LogLine():
                yield from self._log(fact)
            case PodAdmitted():
                yield self._admitted(fact)
            case Exited():
                yield self._exited(fact)
            case Scraped():
                pass

    def _list(self, change: Change) -> Iterator[Happening]:
        before = self._listed.get(change.resource, Listed())
        now = Listed(ids=change.ids, healthy=change.healthy)
        if now == before:
            return
        self._listed[change.resource] = now
        fields = {
            "resource": change.resource,
            "capacity": len(now.ids),
            "allocatable": len(now.healthy),
        }
        text = f"{change.resource}: {_from_to(before, now)}"
        milliseconds = self._since_edit(change)
        if milliseconds is not None:
            text += f", {milliseconds:.0f} ms after the edit"
            fields["after_edit_ms"] = round(milliseconds, 1)
        worse = len(now.healthy) < len(before.healthy)
        yield Happening(event="list", text=text, bad=worse, fields=fields, at=change.at)

    def _since_edit(self, change: Change) -> float | None:
        edit = self._edits.get(self._vendor_of(change.resource), _Edit())
        if edit.edited is None or edit.in_force is None or change.resource in edit.answered:
            return None
        if change.at < edit.edited or change.at - edit.in_force > EDIT_SECONDS:
            return None
        milliseconds = (change.at - edit.edited) * 1000
        if not edit.answered:
            self.list_ms = milliseconds
        edit.answered.add(change.resource)
        return milliseconds

    def _vendor_of(self, resource: str) -> str:
        domain = resource.partition("/")[0]
        owners = (vendor for vendor in self.vendors if dialects.of(vendor).domain == domain)
        return next(owners, self.vendors[0])

    def _kubelet(self, change: Change) -> Iterator[Happening]:
        if change.kind is ChangeKind.REMOVED:
            yield Happening(
                event="pod",
                text=f"pod {change.pod} ended",
                fields={"pod": change.pod},
                at=change.at,
            )
        words = _KUBELET_KINDS.get(change.kind)
        if words is None:
            return
        parts = [words, change.resource, change.detail]
        yield Happening(
            event="kubelet",
            text=" ".join(part for part in parts if part),
            bad=change.kind in (ChangeKind.CRASHED, ChangeKind.REFUSED),
            fields={"what": change.kind.value, "resource": change.resource},
            at=change.at,
        )

    def _admitted(self, fact: PodAdmitted) -> Happening:
        admission = fact.admission
        fields: dict[str, object] = {"pod": admission.pod.name, "admitted": admission.admitted}
        if not admission.admitted:
            why = f"{admission.reason}: {admission.message}"
            text = f"pod {admission.pod.name} refused, {why}"
            return Happening(event="pod", text=text, bad=True, fields={**fields, "why": why})
        units = [
            unit
            for resources in admission.devices.values()
            for given in resources.values()
            for unit in given
        ]
        milliseconds = admission.seconds * 1000
        text = f"pod {admission.pod.name} got {self.names.listed(units)} in {milliseconds:.1f} ms"
        fields |= {"units": units, "ms": round(milliseconds, 2)}
        return Happening(event="pod", text=text, fields=fields)

    def _exited(self, fact: Exited) -> Happening:
        whose = f"{fact.vendor}'s daemon" if len(self.vendors) > 1 else "the daemon"
        text = f"{whose} ended with code {fact.code}"
        fields = {
            "vendor": fact.vendor,
            "code": fact.code,
            "last": [sentence(line) for line in fact.last],
        }
        return Happening(event="daemon", text=text, bad=True, fields=fields)

    def _log(self, line: LogLine) -> Iterator[Happening]:
        if line.message in _TOLD_OTHERWISE:
            return
        if line.message == "config in force":
            self._edit(line.vendor).in_force = line.at
        if line.message.startswith("config refused"):
            self._edit(line.vendor).edited = None  # what the lists do now has another cause
        text = self.names.shorten(sentence(line))
        if len(self.vendors) > 1:
            text = f"{line.vendor}: {text}"
        yield Happening(
            event="config" if line.message.startswith("config") else "daemon",
            text=text,
            bad=line.level in ("warning", "error"),
            fields={
                "vendor": line.vendor,
                "level": line.level,
                "message": line.message,
                **line.fields,
            },
        )

    def _edit(self, vendor: str) -> _Edit:
        return self._edits.setdefault(vendor, _Edit())


def sentence(line: LogLine) -> str:
    """Return a log line as people read it."""
    match line.message:
        case "simulated":
            return f"the machine: {line.fields.get('step', '')}"
        case "serving metrics and probes":
            return f"metrics on port {line.fields.get('port', '')}"
    values = " ".join(f"{key}={value}" for key, value in line.fields.items() if value != "")
    return f"{line.message} {values}".strip()


def _from_to(before: Listed, now: Listed) -> str:
    capacity = _step("capacity", len(before.ids), len(now.ids))
    allocatable = _step("allocatable", len(before.healthy), len(now.healthy))
    return f"{capacity}, {allocatable}"


def _step(name: str, before: int, now: int) -> str:
    return f"{name} {now}" if before == now else f"{name} {before} → {now}"
