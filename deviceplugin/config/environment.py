"""The incumbents' environment variables: they override the file's keys."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic.fields import FieldInfo

from deviceplugin.config.document import Loc
from deviceplugin.config.fields import every, extra, kinds
from deviceplugin.config.rules import Problem
from deviceplugin.config.scalars import shown
from deviceplugin.config.schema_common import Block

FILE = "environment"
"""Stands for the file in problems of a variable; their line is 0."""

_TRUE = frozenset({"1", "t", "true"})
_FALSE = frozenset({"0", "f", "false"})

_NO_EFFECT = {
    "CONFIG_FILE": "name the config with --config",
    "KUBELET_SOCKET": "name the kubelet's folder with --plugin-dir",
    "CDI_FEATURE_FLAGS": "CDI specs are used as they are found and none is generated",
    "CDI_DISABLE_HOOKS": "CDI specs are used as they are found and none is generated",
}

_ALL_XIDS = "xid-*"


class _ValueError(ValueError):
    """A variable's text means nothing; ``str()`` is what to write."""


@dataclass(slots=True, kw_only=True)
class Overlay:
    """What the environment says, in the file's terms.

    Attributes:
        values: nested as a file would be.
        names: the variable behind each key.

    """

    values: dict[str, Any] = field(default_factory=dict)
    names: dict[Loc, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def place(self, loc: Loc) -> tuple[str, int, str]:
        """Name the variable instead of the key it stands for."""
        for end in range(len(loc), 0, -1):
            if name := self.names.get(loc[:end]):
                return FILE, 0, name
        return FILE, 0, ""


def overlay(env: Mapping[str, str], schema: type[Block]) -> Overlay:
    """Read the variables that the schema names; empty ones count as unset."""
    read = Overlay()
    for loc, known in every(schema):
        names = [name for name in extra(known, "x-env") or () if env.get(name)]
        if names:
            _take(read, loc, known, {name: env[name] for name in names})
    return read


def _take(read: Overlay, loc: Loc, known: FieldInfo, texts: Mapping[str, str]) -> None:
    name, text = next(iter(texts.items()))
    read.names[loc] = name
    for other, different in texts.items():
        if different != text:
            remedy = f"set only one of them, or both to the same as {name}={shown(text)}"
            read.problems.append(_problem(other, different, remedy))
    try:
        _put(read.values, loc, _parse(text, known))
    except _ValueError as error:
        read.problems.append(_problem(name, text, str(error)))
    if why := extra(known, "x-no-effect"):
        read.warnings.append(f"{FILE}: {name} has no effect here: {why}")


def _put(values: dict[str, Any], loc: Loc, value: object) -> None:
    for part in loc[:-1]:
        values = values.setdefault(str(part), {})
    values[str(loc[-1])] = value


def _parse(text: str, known: FieldInfo) -> object:
    types = kinds(known)
    if bool in types:
        return _boolean(text)
    if tuple not in types:
        return text
    items = tuple(part.strip() for part in text.split(",") if part.strip())
    return tuple(_number(item) for item in items) if int in types else items


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise _ValueError("write true or false")


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise _ValueError("write numbers, separated by commas")
    return int(text)


def _problem(name: str, text: str, remedy: str) -> Problem:
    return Problem(file=FILE, line=0, path=name, found=shown(text), remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """What variables say that have no key in the file."""

    disabled: tuple[str, ...] = ()
    enabled: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


def nothing(_env: Mapping[str, str]) -> Further:
    """Stand for a vendor without such variables."""
    return Further()


def nvidia(env: Mapping[str, str]) -> Further:
    """Read NVIDIA's DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS, and name the useless ones.

    Both take XID numbers separated by commas; ``all`` and ``xids`` stand for every XID.
    What is enabled wins over what is disabled, so "disable all, enable 79" watches 79 alone.
    """
    disabled, bad = _xids("DP_DISABLE_HEALTHCHECKS", env)
    enabled, worse = _xids("DP_ENABLE_HEALTHCHECKS", env)
    useless = ((name, why) for name, why in _NO_EFFECT.items() if env.get(name))
    return Further(
        disabled=disabled,
        enabled=enabled,
        problems=(*bad, *worse),
        warnings=tuple(f"{FILE}: {name} has no effect here: {why}" for name, why in useless),
    )


def _xids(name: str, env: Mapping[str, str]) -> tuple[tuple[str, ...], list[Problem]]:
    found: dict[str, None] = {}
    bad = []
    for word in (part.strip().lower() for part in env.get(name, "").split(",")):
        if word in {"all", "xids"}:
            found[_ALL_XIDS] = None
        elif re.fullmatch(r"[1-9][0-9]{0,5}", word, re.ASCII):
            found[f"xid-{word}"] = None
        elif word:
            bad.append(_problem(name, word, "write XID numbers separated by commas, or all"))
    return tuple(found), bad
