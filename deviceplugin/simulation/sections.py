"""Strict reading of a YAML mapping, key by key, with the line of everything that is wrong.

A ``Section`` hands out typed values; each wrong or missing one becomes a ``Problem`` and
is replaced by the default, so that one read names all problems of a file.
"""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import yaml

from deviceplugin.config.rules import Problem
from deviceplugin.errors import DevicePluginError

D = TypeVar("D")
V = TypeVar("V")
_FOUND = 40  # characters of the file shown in a problem


class TextInvalidError(DevicePluginError):
    """A file or a line of ours does not say what it must; ``problems`` says why, by line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in sorted(problems)))
        self.problems = tuple(sorted(problems))


@dataclass(kw_only=True)
class Report:
    """Collects the problems of one file."""

    file: str
    problems: list[Problem] = field(default_factory=list)

    def add(self, node: yaml.Node, path: str, remedy: str, found: str = "") -> None:
        """Note that what stands at ``node`` is wrong."""
        line = node.start_mark.line + 1
        what = found or source(node)
        self.problems.append(
            Problem(file=self.file, line=line, path=path, found=what, remedy=remedy)
        )

    def check(self) -> None:
        """Raise TextInvalidError when anything was wrong."""
        if self.problems:
            raise TextInvalidError(self.problems)


def source(node: yaml.Node) -> str:
    """Return the text of a node, on one line and shortened."""
    text = node.start_mark.buffer or ""
    piece = " ".join(text[node.start_mark.pointer : node.end_mark.pointer].split())
    return (piece[: _FOUND - 1] + "…" if len(piece) > _FOUND else piece) or "nothing"


def compose(text: str, report: Report) -> yaml.Node | None:
    """Parse one document; None (and a problem) where the text is not YAML."""
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        found = getattr(error, "problem", None) or str(error)
        remedy = "write one YAML document"
        report.problems.append(
            Problem(file=report.file, line=line, path="", found=found, remedy=remedy)
        )
        return None


class Section:
    """One mapping. Take every key there may be, then ``close`` to refuse the others."""

    def __init__(self, node: yaml.Node, report: Report, path: str = "") -> None:
        self.node = node
        self.path = path
        self.report = report
        self._known: list[str] = []
        self._values = dict(self._pairs())

    def _pairs(self) -> Iterator[tuple[str, yaml.Node]]:
        if not isinstance(self.node, yaml.MappingNode):
            self.report.add(self.node, self.path, "write a mapping, `key: value`")
            return
        seen = set()
        for key, value in self.node.value:
            name = str(key.value)
            if name in seen:
                self.report.add(key, self._at(name), "write the key once", f"{name} twice")
            seen.add(name)
            yield name, value

    def _at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def has(self, key: str) -> bool:
        """Whether the key is there at all."""
        return key in self._values

    def take(self, key: str) -> yaml.Node | None:
        """Return the node of a key, which is known from now on."""
        self._known.append(key)
        return self._values.get(key)

    def close(self) -> None:
        """Refuse each key that nobody took, with the nearest one that may stand there."""
        for key in self._values.keys() - set(self._known):
            near = difflib.get_close_matches(key, self._known, n=1)
            remedy = f"write {near[0]}" if near else f"write one of {', '.join(self._known)}"
            self.report.add(self._values[key], self._at(key), remedy, f"unknown key {key}")

    def missing(self, key: str, remedy: str) -> None:
        """Note that a key must be there."""
        self.report.add(self.node, self._at(key), remedy, "no such key")

    def wrong(self, key: str, remedy: str) -> None:
        """Note that the value of a key is wrong."""
        self.report.add(self._values.get(key, self.node), self._at(key), remedy)

    def _read(self, key: str, default: D, read: Callable[[yaml.Node], V], remedy: str) -> D | V:
        node = self.take(key)
        if node is None:
            return default
        try:
            return read(node)
        except ValueError:
            self.wrong(key, remedy)
            return default

    def integer(self, key: str, default: D, low: int = 0, high: int = 2**31) -> int | D:
        """Read a whole number from ``low`` to ``high``."""
        remedy = f"write a whole number from {low} to {high}"
        return self._read(key, default, lambda node: int(_number(node, "int", low, high)), remedy)

    def number(self, key: str, default: D, low: float = 0.0, high: float = 1e6) -> float | D:
        """Read a number, such as seconds, from ``low`` to ``high``."""
        remedy = f"write a number from {low:g} to {high:g}"
        return self._read(key, default, lambda node: _number(node, "float", low, high), remedy)

    def text(self, key: str, default: D) -> str | D:
        """Read a scalar as it stands: versions and PCI addresses look like numbers to YAML."""
        return self._read(key, default, _text, "write a text")

    def choice(self, key: str, default: D, names: Sequence[str]) -> str | D:
        """Read one of some words."""
        remedy = f"write one of {', '.join(names)}"
        return self._read(key, default, lambda node: _word(node, names), remedy)

    def items(self, key: str) -> tuple[yaml.Node, ...]:
        """Read a list."""
        return self._read(key, (), _elements, "write a list, `- …`")

    def sections(self, key: str) -> "Iterator[Section]":
        """Read a list of mappings."""
        for number, node in enumerate(self.items(key)):
            yield Section(node, self.report, f"{self._at(key)}[{number}]")

    def section(self, key: str) -> "Section | None":
        """Read a mapping; None where the key is absent."""
        node = self.take(key)
        return None if node is None else Section(node, self.report, self._at(key))


def _number(node: yaml.Node, kind: str, low: float, high: float) -> float:
    if node.tag not in (f"tag:yaml.org,2002:{kind}", "tag:yaml.org,2002:int"):
        raise ValueError(node.tag)
    value = float(_text(node))
    if not low <= value <= high:
        raise ValueError(value)
    return value


def _text(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
        raise ValueError(node.tag)
    return str(node.value)


def _word(node: yaml.Node, names: Sequence[str]) -> str:
    word = _text(node)
    if word not in names:
        raise ValueError(word)
    return word


def _elements(node: yaml.Node) -> tuple[yaml.Node, ...]:
    if not isinstance(node, yaml.SequenceNode):
        raise ValueError(node.tag)  # noqa: TRY004 - one way to say "wrong" for all readers
    return tuple(node.value)
