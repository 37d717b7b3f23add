"""The live view of a simulated node: lines of text that fit the terminal."""

import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from deviceplugin.simulation.facts import Happening
from deviceplugin.simulation.view import DeviceRow, NodeView

_GLYPHS = {
    "u": ("●", "cyan"),
    "f": ("○", "green"),
    "l": ("·", "yellow"),
    "x": ("✗", "bold red"),
}
_ASCII = {"u": "#", "f": "o", "l": "-", "x": "x"}
_WIDE_UNITS = 8  # more units of one device are counted instead of drawn
_MOST_PODS = 5
_FEWEST_HAPPENINGS = 3
_MOST_HAPPENINGS = 12
_MOST_REASONS = 4
_MOST_WRONG = 4
_WRONG_SHARE = 3  # of the height at most, in lines: one third
_FIXED_LINES = 6  # headings of pods and events, latencies, and the empty lines before each

_FRAME = 0.1  # seconds between two drawings at least
_TICK = 1.0  # and at most

Lines = list[Text]


class _Wrong(NamedTuple):
    """A line about the config, with the word that says what it means."""

    label: str
    text: str
    style: str


class LiveReporter:
    """Draws the whole view anew, in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)
        self._drawn = 0.0
        self._changed = True
        self._last_words: list[str] = []

    def start(self) -> None:
        """Take the screen."""
        self._live.start()

    def tell(self, happening: Happening) -> None:
        """Have it drawn soon; print it when the screen is given back already."""
        self._changed = True
        if not self._live.is_started:
            self._say(happening.text)
        elif isinstance(last := happening.fields.get("last"), list):
            self._last_words = [*last, happening.text]

    def draw(self, look: Callable[[], NodeView]) -> None:
        """Draw when something changed or the clock has to move on."""
        now = time.monotonic()
        if now - self._drawn >= (_FRAME if self._changed else _TICK):
            self._live.update(self._fitting(look()), refresh=True)
            self._drawn, self._changed = now, False

    def stop(self) -> None:
        """Give the screen back, and say on it what the daemon died of."""
        self._live.stop()
        for line in self._last_words:
            self._say(line)

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False)

    def _fitting(self, view: NodeView) -> Group:
        size = self._console.size
        return Group(*draw(view, size.width, size.height, ascii_only=self._is_ascii()))

    def _is_ascii(self) -> bool:
        return self._console.options.ascii_only


def draw(view: NodeView, width: int, height: int, *, ascii_only: bool = False) -> Lines:
    """Draw a view in at most ``height`` lines, none longer than ``width``."""
    devices = _devices(view.devices, width, ascii_only=ascii_only)
    wrong = _wrong(view, width, height // _WRONG_SHARE)
    head = [*_head(view), *_resources(view), *wrong, *devices]
    room = height - len(head) - _FIXED_LINES
    pods = max(1, min(_MOST_PODS, len(view.pods), room - _FEWEST_HAPPENINGS))
    happenings = max(1, min(_MOST_HAPPENINGS, room - pods))
    lines = [*head, *_pods(view, pods), *_happenings(view, happenings), Text(), _latencies(view)]
    for line in lines:
        line.truncate(width, overflow="crop" if ascii_only else "ellipsis")
    return lines[:height]


def _head(view: NodeView) -> Iterator[Text]:
    minutes, seconds = divmod(int(view.elapsed), 60)
    metrics = f"  metrics {' '.join(view.metrics)}" if view.metrics else ""
    yield Text.assemble(
        ("deviceplugin simulate", "bold"),
        f"  machine {view.machine}  {minutes}:{seconds:02}{metrics}",
    )
    for place, config in enumerate(view.configs):
        yield Text.assemble("  or " if place else "Edit ", (config, "bold"))
    yield Text("and save it: replicas: 4, say, and watch. Ctrl-C ends.", style="dim")


def _wrong(view: NodeView, width: int, most: int) -> Iterator[Text]:
    """Each problem whole, for the remedy stands at its end; those without room are counted."""
    told = [_Wrong("REFUSED", text, "bold red") for text in view.refused]
    told += [_Wrong("UNMET", text, "yellow") for text in view.unmet]
    if not told:
        return
    yield Text()
    blocks = [_wrapped(wrong, view, width) for wrong in told[:_MOST_WRONG]]
    shown = 1 + sum(1 for length in list(accumulate(map(len, blocks)))[1:] if length <= most)
    for block in blocks[:shown]:
        yield from block
    if len(told) > shown:
        yield Text(f"and {len(told) - shown} more", style=told[shown].style)


def _wrapped(wrong: _Wrong, view: NodeView, width: int) -> Lines:
    short = wrong.text
    for config in view.configs:
        short = short.replace(config, Path(config).name)
    lines = textwrap.wrap(f"config {wrong.label} {short}", width, break_on_hyphens=False)
    return [Text(line, style=wrong.style) for line in lines]


def _resources(view: NodeView) -> Iterator[Text]:
    yield Text()
    wide = max([len(row.name) for row in view.resources], default=0)
    wide = max(wide, len("resource"))
    head = f"{'resource':<{wide}} {'capacity':>9} {'allocatable':>12} {'in use':>7}"
    yield Text(head, style="bold")
    if not view.resources:
        yield Text("nothing registered", style="dim")
    for row in view.resources:
        line = Text(f"{row.name:<{wide}} {row.capacity:>9} {row.allocatable:>12} {row.used:>7}")
        if row.note:
            line.append(f"  {row.note}", style="yellow")
        yield line


def _devices(rows: Sequence[DeviceRow], width: int, *, ascii_only: bool) -> Iterator[Text]:
    if not rows:
        return
    yield Text()
    cells = [_cell(row, ascii_only=ascii_only) for row in rows]
    wide = max(cell.cell_len for cell in cells) + 3
    columns = max(1, (width + 3) // wide)
    for start in range(0, len(cells), columns):
        line = Text()
        for cell in cells[start : start + columns]:
            line.append_text(cell)
            line.append(" " * (wide - cell.cell_len))
        line.rstrip()
        yield line
    yield _legend(ascii_only=ascii_only)
    ill = [row for row in rows if row.reason]
    for row in ill[:_MOST_REASONS]:
        yield Text.assemble((f"{row.name} unhealthy: ", "bold red"), row.reason)
    if len(ill) > _MOST_REASONS:
        yield Text(f"and {len(ill) - _MOST_REASONS} more unhealthy", style="bold red")


def _cell(row: DeviceRow, *, ascii_only: bool) -> Text:
    cell = Text(f"{row.name} ")
    if len(row.units) > _WIDE_UNITS:
        healthy = row.units.count("u") + row.units.count("f")
        style = "red" if "x" in row.units else ""
        return cell.append(f"{row.units.count('u')}/{healthy}/{len(row.units)}", style=style)
    for unit in row.units:
        glyph, style = _GLYPHS[unit]
        cell.append(_ASCII[unit] if ascii_only else glyph, style=style)
    return cell


def _legend(*, ascii_only: bool) -> Text:
    used, free, leaving, bad = (_ASCII[u] if ascii_only else _GLYPHS[u][0] for u in "uflx")
    text = (
        f"{used} in use  {free} free  {leaving} leaving  {bad} unhealthy"
        "  (many: in use/healthy/all)"
    )
    return Text(text, style="dim")


def _pods(view: NodeView, most: int) -> Iterator[Text]:
    yield Text()
    yield Text(f"pods ({len(view.pods)})" if len(view.pods) > most else "pods", style="bold")
    if not view.pods:
        yield Text("none", style="dim")
    for row in view.pods[:most]:
        yield Text.assemble((f"{row.name:<12} ", "cyan"), row.holds)


def _happenings(view: NodeView, most: int) -> Iterator[Text]:
    yield Text()
    yield Text("events", style="bold")
    for happening in view.happenings[-most:]:
        style = "red" if happening.bad else ""
        at = f"{happening.at - view.began:7.2f}s "
        yield Text.assemble((at, "dim"), (happening.text, style))


def _latencies(view: NodeView) -> Text:
    latencies = view.latencies
    parts = []
    if latencies.admission is not None:
        parts.append(f"pod admission {latencies.admission:.1f} ms (p50 of {latencies.admissions})")
    if latencies.edit is not None:
        parts.append(f"edit to new list {latencies.edit:.0f} ms")
    return Text(", ".join(parts) or "no latencies yet", style="bold")
