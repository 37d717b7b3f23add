"""What the schema's checks find, as problems in plain words."""

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from deviceplugin.config.document import Loc, path
from deviceplugin.config.fields import at, choices, expected, kinds
from deviceplugin.config.rules import Problem
from deviceplugin.config.scalars import shown
from deviceplugin.config.schema_common import Block

Place = Callable[[Loc], tuple[str, int, str]]
"""Turns a place in the tree into file, line and the path that people read."""


def problems(error: ValidationError, schema: type[Block], place: Place) -> Iterator[Problem]:
    """Say each finding of ``error``, in no order."""
    for finding in error.errors(include_url=False):
        loc = written_loc(finding["loc"])
        if finding["type"] == "too_short" and finding["input"]:
            continue  # items were bad and are named themselves
        field = at(schema, loc)
        file, line, where = place(loc)
        found, remedy = _words(finding, loc, field)
        yield Problem(file=file, line=line, path=where, found=found, remedy=remedy)


def written_loc(loc: Loc) -> Loc:
    """Drop what the checker put in between: names of union branches, marks of keys."""
    return tuple(
        part
        for before, part in zip(("", *loc), loc, strict=False)
        if not (part == "[key]" or (before in _TAGGED and part in _BRANCHES) or part in _TYPES)
    )


_TAGGED = frozenset({"devices", "deviceListStrategy"})
_BRANCHES = frozenset({"all", "count", "list", "one"})
_TYPES = frozenset({"str", "int"})


def _words(finding: Any, loc: Loc, field: FieldInfo | None) -> tuple[str, str]:
    value = finding["input"]
    match finding["type"]:
        case "refused":
            return finding["ctx"]["found"], finding["ctx"]["remedy"]
        case "missing":
            wanted = expected(field) if field else ""
            return f"no {loc[-1]}", f"write {wanted}"
        case "too_long":
            return f"{len(value):,} entries", f"write {expected(field)}" if field else ""
        case "model_type":
            return shown(value), "write a mapping of keys and values"
        case _:
            return shown(value), _remedy(value, field)


def _remedy(value: object, field: FieldInfo | None) -> str:
    if field is None:
        return "write a mapping"
    if isinstance(value, str):
        return _for_text(value, field)
    if str in kinds(field) and isinstance(value, bool | int | float) and not choices(field):
        return f'write text, in quotes where it looks like something else: "{shown(value)}"'
    return f"write {expected(field)}"


def _for_text(value: str, field: FieldInfo) -> str:
    types = kinds(field)
    if int in types and re.fullmatch(r"[1-9][0-9]{0,4}", value, re.ASCII):
        return f"write {value}, without quotes"
    if bool in types and value.lower() in {"true", "false"}:
        return f"write {value.lower()}, without quotes"
    words = choices(field)
    near = "" if expected(field) in words else _near(value.lower()[:100], words)
    return f"write {near or expected(field)}"


def _near(text: str, words: tuple[str, ...]) -> str:
    """Guess a word only from its beginning or a slip of the finger: another guess may do harm."""
    begun = [word for word in words if text and word.startswith(text)]
    near = difflib.get_close_matches(text, begun or words, n=1, cutoff=0.0 if begun else 0.85)
    return near[0] if near else ""


def placed(file: str, lines: Callable[[Loc], int]) -> Place:
    """Make places of a file whose tree gives the lines."""
    return lambda loc: (file, lines(loc), path(loc))
