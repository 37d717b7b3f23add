"""Slots as text: ``whole``, ``0-3,7``. Thousands of units in a few bytes of state."""

from collections.abc import Iterable, Iterator

from deviceplugin.sharing.ids import WHOLE

_WHOLE = "whole"
_HIGHEST = 999_999_999
"""Highest share number that an id can have; we give out lower ones, a predecessor may not have."""

_LONGEST = 1_000_000
"""Most shares in one run, more than fit a list; keeps a text from meaning a billion units."""


def to_text(slots: Iterable[int]) -> str:
    """Write slots in ascending order."""
    return ",".join(_run_text(first, last) for first, last in _runs(sorted(slots)))


def from_text(text: str) -> tuple[int, ...]:
    """Read slots.

    Raises:
        ValueError: it is not such a text, a number is too high or a run too long.

    """
    return tuple(slot for part in text.split(",") if part for slot in _part(part))


def _runs(slots: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for slot in slots:
        # The whole device is no share, so no run goes on from it.
        if runs and runs[-1][1] == slot - 1 != WHOLE:
            runs[-1] = (runs[-1][0], slot)
        else:
            runs.append((slot, slot))
    return runs


def _run_text(first: int, last: int) -> str:
    if first == WHOLE:
        return _WHOLE
    return str(first) if first == last else f"{first}-{last}"


def _part(part: str) -> Iterator[int]:
    if part == _WHOLE:
        yield WHOLE
        return
    first, dash, last = part.partition("-")
    begin, end = int(first), int(last if dash else first)
    if not 0 <= begin <= end <= _HIGHEST or end - begin >= _LONGEST:
        raise ValueError(f"{part!r} is no range of at most {_LONGEST} shares up to {_HIGHEST}")
    yield from range(begin, end + 1)
