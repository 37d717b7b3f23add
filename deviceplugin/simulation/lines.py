"""The story of a simulated node as lines: for a log, or for a program."""

import json
from collections.abc import Callable
from typing import TextIO

from deviceplugin.simulation.facts import Happening
from deviceplugin.simulation.view import NodeView


def plain(happening: Happening, began: float) -> str:
    """Return a line for people."""
    mark = "!" if happening.bad else " "
    return f"{happening.at - began:8.3f}s {mark} {happening.text}"


def as_json(happening: Happening, began: float) -> str:
    """Return a JSON object: ``at`` seconds since the start, ``event``, ``text``, its fields."""
    line = {
        "at": round(happening.at - began, 4),
        "event": happening.event,
        "text": happening.text,
        "bad": happening.bad,
        **happening.fields,
    }
    return json.dumps(line, default=str, ensure_ascii=False)


class LineReporter:
    """Writes each happening as soon as it is known; times count from the first."""

    def __init__(self, out: TextIO, *, json_lines: bool) -> None:
        self._out = out
        self._began: float | None = None
        self._format = as_json if json_lines else plain

    def tell(self, happening: Happening) -> None:
        """Write one line. Raises BrokenPipeError when nobody reads any more."""
        if self._began is None:
            self._began = happening.at
        self._out.write(self._format(happening, self._began) + "\n")
        self._out.flush()

    def start(self) -> None:
        """Lines need no preparation."""

    def draw(self, look: Callable[[], NodeView]) -> None:
        """Lines tell changes only."""

    def stop(self) -> None:
        """Lines need no end."""
