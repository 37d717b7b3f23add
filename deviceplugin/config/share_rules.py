"""The ``sharing`` block as rules, and what its entries must not do together."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from deviceplugin.config.devices import overlap, selection
from deviceplugin.config.dialects import Dialect
from deviceplugin.config.document import Loc, path
from deviceplugin.config.names import MAX_LENGTH
from deviceplugin.config.rules import Devices, Problem, ShareRule
from deviceplugin.config.schema_common import MAX_ENTRIES, SharedResource, Sharing
from deviceplugin.model import AllocationRules, Policy, ResourceName

SUFFIX = ".shared"

_TIME_SLICING: Loc = ("sharing", "timeSlicing")
_MPS: Loc = ("sharing", "mps")
_RESOURCES: Loc = (*_TIME_SLICING, "resources")

Lines = Callable[[Loc], int]


def share_rules(sharing: Sharing, file: str, lines: Lines) -> tuple[ShareRule, ...]:
    """Turn a valid block into rules; the short form is one rule without a resource."""
    block = sharing.time_slicing
    if block is None:
        return ()
    suffix = SUFFIX if block.rename_by_default else ""
    name = Path(file).name
    if block.replicas is not None:
        loc = (*_TIME_SLICING, "replicas")
        where = f"{name}:{lines(loc)} {path(loc)}"
        rule = ShareRule(resource=None, replicas=block.replicas, rename_suffix=suffix, where=where)
        return (rule,)
    places = ((*_RESOURCES, number) for number in range(len(block.resources or ())))
    return tuple(
        _rule(entry, suffix, f"{name}:{lines(loc)} {path(loc)}")
        for entry, loc in zip(block.resources or (), places, strict=True)
    )


def _rule(entry: SharedResource, suffix: str, where: str) -> ShareRule:
    return ShareRule(
        resource=ResourceName(entry.name),
        replicas=entry.replicas,
        rename=ResourceName(entry.rename) if entry.rename else None,
        rename_suffix="" if entry.rename else suffix,
        devices=selection(entry.devices),
        where=where,
    )


def allocation_rules(sharing: Sharing, policy: Policy) -> AllocationRules:
    """Collect what the file says on requests and on where shares go."""
    block = sharing.time_slicing
    return AllocationRules(
        policy=policy,
        fail_requests_greater_than_one=bool(block and block.fail_requests_greater_than_one),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """An entry that is right by itself."""

    loc: Loc
    line: int
    name: str
    rename: str | None
    listed: str
    devices: Devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflicts:
    """Checks across keys, on the text's plain values: other keys may still be wrong."""

    file: str
    lines: Lines
    dialect: Dialect

    def problems(self, document: Mapping[str, Any]) -> Iterator[Problem]:
        """Find what is right by itself and wrong beside something else."""
        sharing = _mapping(document.get("sharing"))
        slicing = sharing.get("timeSlicing")
        if sharing.get("mps") is not None:
            yield self._mps(both=slicing is not None)
        if isinstance(slicing, Mapping):
            yield from self._forms(slicing)
            yield from self._entries(slicing)

    def _mps(self, *, both: bool) -> Problem:
        if not both:
            return self._problem(_MPS, "MPS sharing", f"{self.dialect.mps}: use timeSlicing")
        found = f"both {path(_MPS)} and {path(_TIME_SLICING)} (line {self.lines(_TIME_SLICING)})"
        return self._problem(_MPS, found, f"keep timeSlicing alone; {self.dialect.mps}")

    def _forms(self, slicing: Mapping[str, Any]) -> Iterator[Problem]:
        replicas, resources = slicing.get("replicas"), slicing.get("resources")
        if replicas is None and resources is None:
            remedy = "write replicas: 4, or resources with a name and replicas each"
            yield self._problem(_TIME_SLICING, "neither replicas nor resources", remedy)
        if replicas is not None and resources is not None:
            line = self.lines(_RESOURCES)
            yield self._problem(
                (*_TIME_SLICING, "replicas"),
                f"replicas beside resources (line {line})",
                "keep one: replicas shares every whole device, resources only those named",
            )

    def _entries(self, slicing: Mapping[str, Any]) -> Iterator[Problem]:
        entries = tuple(self._valid(slicing))
        for entry in entries:
            yield from self._length(entry)
            yield from self._taken(entry)
        for one, other in combinations(entries, 2):
            yield from self._pair(one, other)

    def _valid(self, slicing: Mapping[str, Any]) -> Iterator[_Entry]:
        suffix = SUFFIX if slicing.get("renameByDefault") is True else ""
        resources = slicing.get("resources")
        listed = resources if isinstance(resources, tuple) else ()
        for number, raw in enumerate(listed[:MAX_ENTRIES]):
            loc = (*_RESOURCES, number)
            try:
                entry = SharedResource.model_validate(raw, context=self.dialect.context)
            except ValidationError:
                continue  # named by the schema's own check
            yield _Entry(
                loc=loc,
                line=self.lines(loc),
                name=entry.name,
                rename=entry.rename,
                listed=entry.rename or f"{entry.name}{suffix}",
                devices=selection(entry.devices),
            )

    def _length(self, entry: _Entry) -> Iterator[Problem]:
        if len(entry.listed) > MAX_LENGTH:
            yield self._problem(
                (*entry.loc, "name"),
                f"{entry.listed} under renameByDefault, {len(entry.listed)} characters",
                f"write a rename of at most {MAX_LENGTH} characters",
            )

    def _taken(self, entry: _Entry) -> Iterator[Problem]:
        if entry.rename in self.dialect.resources and entry.rename != entry.name:
            yield self._collision(entry, "a resource that this vendor serves itself")

    def _pair(self, one: _Entry, other: _Entry) -> Iterator[Problem]:
        if one.name == other.name:
            if devices := overlap(one.devices, other.devices):
                yield self._overlap(one, other, devices)
        elif one.listed == other.listed:
            yield self._collision(other, f"the name that line {one.line} lists its devices under")
        elif other.listed == one.name and other.name != one.name:
            yield self._collision(other, f"the resource of line {one.line}")
        elif one.listed == other.name:
            yield self._collision(one, f"the resource of line {other.line}")

    def _overlap(self, one: _Entry, other: _Entry, devices: str) -> Problem:
        return self._problem(
            (*other.loc, "name"),
            f"{other.name} again, on devices that line {one.line} has too ({devices})",
            "name each device in one entry only, with devices",
        )

    def _collision(self, entry: _Entry, what: str) -> Problem:
        key = "rename" if entry.rename else "name"
        found = f"{entry.listed}, {what}"
        return self._problem((*entry.loc, key), found, "write another rename")

    def _problem(self, loc: Loc, found: str, remedy: str) -> Problem:
        line = self.lines(loc)
        return Problem(file=self.file, line=line, path=path(loc), found=found, remedy=remedy)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
