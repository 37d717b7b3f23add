"""Keys of a file against the schema: unknown, doubled, in the wrong case, without effect."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from deviceplugin.config.document import Entries, Entry, Items, Loc, Node, Scalar, path
from deviceplugin.config.fields import block_of, every, extra, keys
from deviceplugin.config.rules import Problem
from deviceplugin.config.scalars import shown
from deviceplugin.config.schema_common import Block

_OBJECT = "leave the Kubernetes object out: the file holds only what stands under one key of data"

_OF_OTHER_FILES = {
    **dict.fromkeys(("apiVersion", "kind", "metadata", "data"), _OBJECT),
    "mig-configs": "remove it: MIG layouts are not supported yet",
}


@dataclass(slots=True, kw_only=True)
class KeyCheck:
    """Goes through a file's tree once.

    Attributes:
        file: for messages.
        schema: what the file may hold.
        elsewhere: keys of other plugins' files, and what to do instead.
        problems: keys that cannot be taken.
        warnings: keys that were taken although something is odd about them.

    """

    file: str
    schema: type[Block]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def settle(self, node: Node) -> Node:
        """Give back the tree with right keys only, each once, spelt as the schema has it."""
        return self._node(node, self.schema, ())

    def _node(self, node: Node, block: type[Block] | None, loc: Loc) -> Node:
        match node:
            case Items():
                nodes = (
                    self._node(item, block, (*loc, number))
                    for number, item in enumerate(node.nodes)
                )
                return Items(line=node.line, nodes=tuple(nodes), size=node.size, depth=node.depth)
            case Entries():
                entries = tuple(self._entries(node.entries, block, loc))
                return Entries(line=node.line, entries=entries, size=node.size, depth=node.depth)
            case Scalar():
                return node

    def _entries(
        self, entries: Iterable[Entry], block: type[Block] | None, loc: Loc
    ) -> Iterator[Entry]:
        first: dict[str, Entry] = {}
        for entry in entries:
            name = self._name(entry, block, loc) if block else entry.key
            if name is None:
                continue
            if earlier := first.get(name):
                self._doubled(entry, earlier, (*loc, name))
                continue
            first[name] = entry
            yield self._entry(entry, name, block, (*loc, name))

    def _entry(self, entry: Entry, name: str, block: type[Block] | None, loc: Loc) -> Entry:
        known = keys(block)[name] if block else None
        if known is not None and entry.node != Scalar(line=entry.node.line, value=None):
            self._note_no_effect(entry, extra(known, "x-no-effect"), loc)
        inner = block_of(known) if known is not None else None
        return Entry(key=name, line=entry.line, node=self._node(entry.node, inner, loc))

    def _name(self, entry: Entry, block: type[Block], loc: Loc) -> str | None:
        known = keys(block)
        if entry.key in known:
            return entry.key
        spelt = next((key for key in known if key.lower() == entry.key.lower()), None)
        if spelt is None:
            self._problem(entry, loc, "an unknown key", self._remedy(entry.key, block, loc))
            return None
        self._warn(entry, (*loc, entry.key), f"taken as {spelt}: write it so")
        return spelt

    def _doubled(self, entry: Entry, earlier: Entry, loc: Loc) -> None:
        found = f"the key a second time (first on line {earlier.line})"
        self._problem(entry, loc[:-1], found, "keep one of the two")

    def _note_no_effect(self, entry: Entry, why: str | None, loc: Loc) -> None:
        if why:
            self._warn(entry, loc, f"has no effect here: {why}")

    def _remedy(self, key: str, block: type[Block], loc: Loc) -> str:
        if remedy := {**_OF_OTHER_FILES, **self.elsewhere}.get(key):
            return remedy
        places = tuple(place for place in _places(self.schema, key) if place != path(loc))
        if places:
            return f"it belongs elsewhere: write {' or '.join(places[:3])}"
        if near := _nearest(key, keys(block)):
            return f"write {near}"
        if places := _near_places(self.schema, key):
            return f"write {places[0]}"
        return f"remove it, or write one of {', '.join(keys(block))}"

    def _problem(self, entry: Entry, loc: Loc, found: str, remedy: str) -> None:
        where = path((*loc, entry.key))
        problem = Problem(file=self.file, line=entry.line, path=where, found=found, remedy=remedy)
        self.problems.append(problem)

    def _warn(self, entry: Entry, loc: Loc, text: str) -> None:
        self.warnings.append(f"{self.file}:{entry.line}: {path(loc)} {text}")


def misplaced_root(node: Node, file: str) -> Problem:
    """Say that the top of the file is no mapping."""
    found = shown(node.value) if isinstance(node, Scalar) else "a list"
    remedy = "write keys and values, starting with version: v1"
    return Problem(file=file, line=node.line, path="", found=found, remedy=remedy)


def _places(schema: type[Block], key: str) -> Iterator[str]:
    for loc, known in every(schema):
        if str(loc[-1]).lower() == key.lower() and not extra(known, "x-no-effect"):
            yield path(loc)


def _nearest(key: str, known: Iterable[str]) -> str:
    by_plain = {_plain(name): name for name in known}
    near = difflib.get_close_matches(_plain(key)[:100], by_plain, n=1, cutoff=0.6)
    return by_plain[near[0]] if near else ""


def _near_places(schema: type[Block], key: str) -> tuple[str, ...]:
    by_plain = {_plain(str(loc[-1])): path(loc) for loc, _ in every(schema)}
    near = difflib.get_close_matches(_plain(key)[:100], by_plain, n=1, cutoff=0.8)
    return tuple(by_plain[name] for name in near)


def _plain(key: str) -> str:
    return key.lower().replace("-", "").replace("_", "")
