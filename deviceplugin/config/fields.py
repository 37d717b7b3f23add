"""Looking into the schema: which keys there are, where, and what each wants."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from deviceplugin.config.document import Loc
from deviceplugin.config.schema_common import Block


@functools.cache
def keys(block: type[Block]) -> Mapping[str, FieldInfo]:
    """Fields of a block by the key as it is written."""
    return {info.alias or name: info for name, info in block.model_fields.items()}


def block_of(field: FieldInfo) -> type[Block] | None:
    """Find the block that a key holds, or a list of which it holds; None for values."""
    return next((part for part in _parts(field.annotation) if _is_block(part)), None)


def choices(field: FieldInfo) -> tuple[str, ...]:
    """List the words that a key allows; () where it is not about words."""
    literals = (part for part in _parts(field.annotation) if get_origin(part) is Literal)
    return tuple(word for literal in literals for word in get_args(literal))


def kinds(field: FieldInfo) -> frozenset[object]:
    """Collect the plain types of a key's values, items of lists included."""
    return frozenset(_parts(field.annotation))


def extra(field: FieldInfo, name: str) -> Any:
    """Read what ``schema_common.key`` noted: ``x-env``, ``x-no-effect``, ``x-write``."""
    noted = field.json_schema_extra
    return noted.get(name) if isinstance(noted, dict) else None


def at(schema: type[Block], loc: Loc) -> FieldInfo | None:
    """Find the field of the last key in ``loc`` that the schema declares."""
    block: type[Block] | None = schema
    found: FieldInfo | None = None
    for part in loc:
        field = keys(block).get(part) if block and isinstance(part, str) else None
        if field is not None:
            found, block = field, block_of(field)
    return found


def every(block: type[Block], loc: Loc = ()) -> Iterator[tuple[Loc, FieldInfo]]:
    """Walk all keys of the schema, blocks before what is in them; lists without index."""
    for name, field in keys(block).items():
        yield (*loc, name), field
        if inner := block_of(field):
            yield from every(inner, (*loc, name))


def expected(field: FieldInfo) -> str:
    """Say what a key wants, to follow "write"."""
    if written := extra(field, "x-write"):
        return str(written)
    if words := choices(field):
        return f"one of {', '.join(words)}"
    return _by_type(field)


def _by_type(field: FieldInfo) -> str:
    types = kinds(field)
    if bool in types:
        return "true or false"
    if block_of(field):
        return "a list of mappings" if tuple in types else "a mapping"
    if int in types:
        return _range(field)
    return "text"


def _range(field: FieldInfo) -> str:
    bounds = [bound for part in _parts(field) for bound in getattr(part, "metadata", ())]
    low = next((bound.ge for bound in bounds if hasattr(bound, "ge")), None)
    high = next((bound.le for bound in bounds if hasattr(bound, "le")), None)
    return "a whole number" if low is None else f"a whole number from {low:,} to {high:,}"


def _parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    if isinstance(annotation, FieldInfo):
        yield from _parts(annotation.annotation)
    if origin := get_origin(annotation):
        yield origin
        if origin is not Literal:
            for part in get_args(annotation):
                yield from _parts(part)


def _is_block(part: object) -> bool:
    return isinstance(part, type) and issubclass(part, Block)
