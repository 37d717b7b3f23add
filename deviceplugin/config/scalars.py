"""What a YAML scalar means, and how a value is shown in a message."""

import json
import re
from collections.abc import Mapping, Sequence

Value = None | bool | int | float | str

_WORDS: Mapping[str, Value] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}

# Not YAML 1.1's base 60: a list of devices may hold 1:0, and the incumbents' parser
# reads text there.
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,400})|0x[0-9a-fA-F]{1,300}", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]{1,300}|(?:0|[1-9][0-9]{0,300})(?:\.[0-9]{0,300})?)(?:[eE][-+]?[0-9]{1,9})?|[-+]?\.inf|\.nan",
    re.ASCII | re.IGNORECASE,
)

_TAGS: Mapping[str, tuple[type, ...]] = {
    "tag:yaml.org,2002:null": (type(None),),
    "tag:yaml.org,2002:bool": (bool,),
    "tag:yaml.org,2002:int": (int,),
    "tag:yaml.org,2002:float": (float, int),
}


class ScalarTagError(ValueError):
    """A tag that does not fit its text, or that means nothing to us."""


def resolve(text: str, *, tag: str | None, plain: bool) -> Value:
    """Say what a scalar means; quoted text stays text.

    Raises:
        ScalarTagError: an explicit tag that is not one of YAML's own or does not fit.

    """
    if tag in {"!", "tag:yaml.org,2002:str"}:
        return text
    if not tag:
        return _implicit(text) if plain else text
    value = _implicit(text)
    if type(value) not in _TAGS.get(tag, ()):
        raise ScalarTagError(f"{shown(text)} with the tag {tag}")
    return value


def _implicit(text: str) -> Value:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        digits = text.replace("_", "")
        return int(digits, 16) if digits.startswith("0x") else int(digits)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def shown(value: object) -> str:
    """Show a value in a message: short, on one line, plain ASCII."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return _short(json.dumps(value))
        case Mapping():
            return "a mapping" if value else "an empty mapping"
        case Sequence():
            return _list(value)
        case _:
            return _short(str(value))


def _list(items: Sequence[object]) -> str:
    if not items:
        return "an empty list"
    few = 4
    if len(items) > few or any(isinstance(item, Mapping | list | tuple) for item in items):
        return f"a list of {len(items):,}"
    return _short(f"the list [{', '.join(shown(item) for item in items)}]")


def _short(text: str) -> str:
    limit = 60
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
