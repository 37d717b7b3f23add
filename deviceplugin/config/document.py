"""YAML text (JSON is YAML) as a tree whose every node knows its line.

We compose the tree from the parser's events ourselves: so depth, size and aliases are
bounded while reading, and no text can make us recurse or allocate without end.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from deviceplugin.config.rules import Problem
from deviceplugin.config.scalars import ScalarTagError, Value, resolve, shown

MAX_BYTES = 1 << 20
"""A ConfigMap holds no more than this."""

MAX_NODES = 20_000
"""Keys and values after aliases are expanded."""

MAX_DEPTH = 32

Loc = tuple[str | int, ...]
"""Where in the tree: keys and item numbers from the top."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A leaf; ``value`` is what the text means."""

    line: int
    value: Value
    size: int = 1
    depth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list."""

    line: int
    nodes: tuple["Node", ...]
    size: int
    depth: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A key as written, its line, and its value."""

    key: str
    line: int
    node: "Node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """A mapping, keys in the order of the file, duplicates included."""

    line: int
    entries: tuple[Entry, ...]
    size: int
    depth: int


Node = Scalar | Items | Entries


class DocumentError(Exception):
    """The text cannot be read any further; the rest is not looked at."""

    def __init__(self, *, line: int, found: str, remedy: str) -> None:
        super().__init__(found)
        self.line = line
        self.found = found
        self.remedy = remedy

    def problem(self, file: str) -> Problem:
        """Say it as a problem of ``file``."""
        return Problem(file=file, line=self.line, path="", found=self.found, remedy=self.remedy)


def read(text: str) -> Node | None:
    """Compose the tree; None for a text without content.

    Raises:
        DocumentError: not YAML, more than one document, or beyond a limit.

    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise too_big(size)
    _refuse_unprintable(text)
    try:
        return _compose(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, text) from error
    except yaml.YAMLError as error:
        raise DocumentError(
            line=1, found=f"text that is not YAML ({error})", remedy="write a YAML mapping"
        ) from error


def decode(content: bytes) -> str:
    """Turn a file's bytes into text; a byte order mark is dropped.

    Raises:
        DocumentError: more than ``MAX_BYTES``, or not UTF-8.

    """
    if len(content) > MAX_BYTES:
        raise too_big(len(content))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"the byte 0x{content[error.start]:02x}, which is not UTF-8"
        raise DocumentError(line=line, found=found, remedy="save the file as UTF-8") from error


def too_big(size: int) -> DocumentError:
    """Say that a text of ``size`` bytes is not a config."""
    found = f"{size:,} bytes"
    remedy = f"write at most {MAX_BYTES:,} bytes, as much as a ConfigMap holds"
    return DocumentError(line=1, found=found, remedy=remedy)


def _refuse_unprintable(text: str) -> None:
    if match := _UNPRINTABLE.search(text):
        line = text.count("\n", 0, match.start()) + 1
        found = f"the control character U+{ord(match[0]):04X}"
        raise DocumentError(line=line, found=found, remedy="remove it")


def _not_yaml(error: yaml.MarkedYAMLError, text: str) -> DocumentError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    if error.problem and "nesting depth" in error.problem:
        return _too_deep(line)  # libyaml has a limit of its own, and looks far ahead
    what = ", ".join(part for part in (error.context, error.problem) if part)
    lines = text.split("\n")
    tab = (
        line <= len(lines) and lines[line - 1][: mark.column + 1 if mark else 0].strip(" ") == "\t"
    )
    remedy = "indent with spaces, not tabs" if tab else "correct the YAML there or just above"
    column = f", column {mark.column + 1}" if mark else ""
    return DocumentError(line=line, found=f"text that is not YAML ({what}{column})", remedy=remedy)


@dataclass(slots=True, kw_only=True)
class _Open:
    """A list or mapping whose end has not been seen."""

    line: int
    anchor: str | None
    mapping: bool
    nodes: list[Node] = field(default_factory=list)
    keys: list[tuple[str, int]] = field(default_factory=list)

    @property
    def wants_key(self) -> bool:
        return self.mapping and len(self.keys) == len(self.nodes)


def _compose(events: Iterable[yaml.Event]) -> Node | None:
    composer = _Composer()
    for event in events:
        composer.take(event)
    return composer.root


@dataclass(slots=True)
class _Composer:
    root: Node | None = None
    documents: int = 0
    seen: int = 0
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, Node | None] = field(default_factory=dict)

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 1
        match event:
            case yaml.DocumentStartEvent():
                self._begin_document(line)
            case yaml.ScalarEvent():
                self._scalar(event, line)
            case yaml.AliasEvent():
                self._alias(event.anchor or "", line)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._begin(event, line)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._end()

    def _begin_document(self, line: int) -> None:
        self.documents += 1
        if self.documents > 1:
            raise DocumentError(
                line=line, found="a second document", remedy="keep one document; drop this --- line"
            )

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        if self.stack and self.stack[-1].wants_key:
            self.stack[-1].keys.append((event.value, line))
            self._count(1, line)
            return
        try:
            value = resolve(event.value, tag=event.tag, plain=event.implicit[0])
        except ScalarTagError as error:
            raise DocumentError(line=line, found=str(error), remedy="remove the tag") from error
        self._add(Scalar(line=line, value=value), event.anchor)

    def _alias(self, anchor: str, line: int) -> None:
        if self.stack and self.stack[-1].wants_key:
            raise _bad_key("an alias", line)
        node = self.anchors.get(anchor)
        if node is None:
            inside = "stands inside what it names" if anchor in self.anchors else "names no anchor"
            raise DocumentError(
                line=line, found=f"the alias *{anchor}, which {inside}", remedy="write the value"
            )
        self._add(node, None)

    def _begin(self, event: yaml.CollectionStartEvent, line: int) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        if self.stack and self.stack[-1].wants_key:
            raise _bad_key("a mapping" if mapping else "a list", line)
        if event.tag not in {None, "!", f"tag:yaml.org,2002:{'map' if mapping else 'seq'}"}:
            raise DocumentError(line=line, found=f"the tag {event.tag}", remedy="remove the tag")
        if len(self.stack) >= MAX_DEPTH:
            raise _too_deep(line)
        if event.anchor:
            self.anchors[event.anchor] = None
        self.stack.append(_Open(line=line, anchor=event.anchor, mapping=mapping))

    def _end(self) -> None:
        opened = self.stack.pop()
        size = 1 + sum(node.size for node in opened.nodes)
        depth = 1 + max((node.depth for node in opened.nodes), default=0)
        self._add(_closed(opened, size, depth), opened.anchor)

    def _add(self, node: Node, anchor: str | None) -> None:
        self._count(1, node.line)
        if node.size > MAX_NODES:
            raise _too_many(node.line)
        if node.depth + len(self.stack) > MAX_DEPTH:
            raise _too_deep(node.line)
        if anchor:
            self.anchors[anchor] = node
        if self.stack:
            self.stack[-1].nodes.append(node)
        else:
            self.root = node

    def _count(self, nodes: int, line: int) -> None:
        self.seen += nodes
        if self.seen > MAX_NODES:
            raise _too_many(line)


def _closed(opened: _Open, size: int, depth: int) -> Node:
    if not opened.mapping:
        return Items(line=opened.line, nodes=tuple(opened.nodes), size=size, depth=depth)
    entries = tuple(
        Entry(key=key, line=line, node=node)
        for (key, line), node in zip(opened.keys, opened.nodes, strict=True)
    )
    return Entries(line=opened.line, entries=_merged(entries), size=size, depth=depth)


def _merged(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Resolve ``<<``: what the mapping says itself comes first, as YAML 1.1 has it."""
    own = tuple(entry for entry in entries if entry.key != "<<")
    keys = {entry.key for entry in own}
    merged: dict[str, Entry] = {}
    for entry in entries:
        if entry.key == "<<":
            for other in _merge_source(entry):
                merged.setdefault(other.key, other)
    return own + tuple(entry for key, entry in merged.items() if key not in keys)


def _merge_source(merge: Entry) -> Iterator[Entry]:
    sources = merge.node.nodes if isinstance(merge.node, Items) else (merge.node,)
    for source in sources:
        if not isinstance(source, Entries):
            raise DocumentError(
                line=merge.line, found="<< with something else than a mapping", remedy="remove it"
            )
        yield from source.entries


def _bad_key(what: str, line: int) -> DocumentError:
    return DocumentError(
        line=line,
        found=f"{what} as a key",
        remedy="write a plain word before the colon (is this an unrendered template, {{ … }}?)",
    )


def _too_many(line: int) -> DocumentError:
    return DocumentError(
        line=line,
        found=f"more than {MAX_NODES:,} keys and values, aliases expanded",
        remedy="write fewer",
    )


def _too_deep(line: int) -> DocumentError:
    return DocumentError(
        line=line, found=f"lists or mappings more than {MAX_DEPTH} deep", remedy="nest less"
    )


def plain(node: Node) -> Any:
    """Turn the tree into dicts, tuples and scalars; the last of duplicate keys wins."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return tuple(plain(item) for item in node.nodes)
        case Entries():
            return {entry.key: plain(entry.node) for entry in node.entries}


def lines(node: Node) -> Mapping[Loc, int]:
    """Map each place of the tree to its line: a key's own, an item's first."""
    return dict(_lines(node, (), node.line))


def _lines(node: Node, loc: Loc, line: int) -> Iterator[tuple[Loc, int]]:
    yield loc, line
    match node:
        case Items():
            for number, item in enumerate(node.nodes):
                yield from _lines(item, (*loc, number), item.line)
        case Entries():
            for entry in node.entries:
                yield from _lines(entry.node, (*loc, entry.key), entry.line)
        case Scalar():
            pass


def path(loc: Loc) -> str:
    """Write a place as people do: ``sharing.timeSlicing.resources[0].replicas``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{_key(part)}" for part in loc)
    return "".join(parts).removeprefix(".")


def _key(text: str) -> str:
    return text if re.fullmatch(r"[\w-]{1,60}", text, re.ASCII) else shown(text)
