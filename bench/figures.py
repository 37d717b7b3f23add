"""A measured figure against its target, and the table and JSON of all of them."""

import json
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Samples of one quantity.

    Attributes:
        name: what was measured, under which conditions.
        unit: of the samples and of the target.
        values: at least one.
        target: the median is to be at most this; None for a figure without one.
        note: what a reader must know to judge it.

    """

    name: str
    unit: str
    values: Sequence[float]
    target: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        """The figure proper."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        return None if self.target is None else self.median <= self.target

    def quantile(self, share: float) -> float:
        """Give the sample below which ``share`` of the samples lie."""
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to measure; ``quick`` shows that it works, not what it costs."""

    quick: bool

    def times(self, full: int, quick: int) -> int:
        """Choose a number of samples."""
        return quick if self.quick else full


Bench = Callable[[Effort], Iterable[Figure]]


def table(figures: Iterable[Figure], console: Console) -> None:
    """Print what was measured, with the spread from the 5th to the 95th of 100 samples."""
    grid = Table(box=None, pad_edge=False)
    for heading in ("figure", "median", "p5 - p95", "n", "target", ""):
        grid.add_column(heading, justify="left" if heading == "figure" else "right")
    for figure in figures:
        grid.add_row(*_row(figure))
    console.print(grid)


def _row(figure: Figure) -> tuple[str, ...]:
    spread = f"{_text(figure.quantile(0.05))} - {_text(figure.quantile(0.95))}"
    target = "" if figure.target is None else f"≤ {_text(figure.target)} {figure.unit}"
    verdict = {True: "met", False: "MISSED", None: ""}[figure.met]
    name = f"{figure.name} ({figure.note})" if figure.note else figure.name
    median = f"{_text(figure.median)} {figure.unit}"
    return name, median, spread, str(len(figure.values)), target, verdict


def _text(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def write(figures: Iterable[Figure], path: Path) -> None:
    """Write everything as JSON, with the machine it was measured on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "load": os.getloadavg(),
            "python": platform.python_version(),
        },
        "figures": [_record(figure) for figure in figures],
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def _record(figure: Figure) -> dict[str, object]:
    return {
        "name": figure.name,
        "unit": figure.unit,
        "median": figure.median,
        "p5": figure.quantile(0.05),
        "p95": figure.quantile(0.95),
        "p99": figure.quantile(0.99),
        "samples": len(figure.values),
        "target": figure.target,
        "met": figure.met,
        "note": figure.note,
    }
