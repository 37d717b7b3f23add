"""The live view fits every terminal."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from deviceplugin.simulation.facts import Happening
from deviceplugin.simulation.live import LiveReporter, draw
from deviceplugin.simulation.view import DeviceRow, Latencies, NodeView, PodRow, ResourceRow

UNITS = "uffx"


def _view(gpus: int, units: str) -> NodeView:
    return NodeView(
        machine="h100x16",
        configs=("/tmp/dp-abcdefgh/config/nvidia.yaml",),
        elapsed=75,
        resources=tuple(
            ResourceRow(
                name=name, capacity=gpus * 4, allocatable=gpus * 3, used=gpus, note="4 unhealthy"
            )
            for name in ("nvidia.com/gpu", "nvidia.com/gpu.shared")
        ),
        devices=tuple(
            DeviceRow(name=f"GPU {index}", units=units, reason="lost" if index == 3 else "")
            for index in range(gpus)
        ),
        pods=tuple(
            PodRow(name=f"train-{n}", holds="nvidia.com/gpu: " + "GPU 15::3, " * n)
            for n in range(9)
        ),
        happenings=tuple(
            Happening(event="daemon", text=f"event {n} " + "long " * 40, at=float(n))
            for n in range(40)
        ),
        latencies=Latencies(admission=1.25, admissions=12, edit=118),
    )


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("height", [24, 60])
@pytest.mark.parametrize(
    ("gpus", "units"), [(1, "f"), (8, "f"), (16, UNITS), (16, "f" * 100)], ids=str
)
def test_lines_fit(width: int, height: int, gpus: int, units: str) -> None:
    """No line is longer than the terminal, and there are not more lines than it has."""
    lines = draw(_view(gpus, units), width, height)
    assert len(lines) <= height
    assert max(line.cell_len for line in lines) <= width


def test_a_common_terminal_shows_everything() -> None:
    """On 80 x 24 sixteen GPUs of four shares, pods, events and latencies are all there."""
    text = "\n".join(line.plain for line in draw(_view(16, UNITS), 80, 24))
    for part in (
        "h100x16  1:15",
        "/tmp/dp-abcdefgh/config/nvidia.yaml",
        "nvidia.com/gpu.shared",
        "GPU 0 ●○○✗",
        "GPU 15 ●○○✗",
        "GPU 3 unhealthy: lost",
        "train-0",
        "event 39",
        "edit to new list 118 ms",
    ):
        assert part in text


def test_the_newest_events_stay() -> None:
    """Where there is little room the oldest events give way."""
    text = "\n".join(line.plain for line in draw(_view(16, UNITS), 80, 24))
    assert "event 0 " not in text


def test_many_units_are_counted() -> None:
    """A GPU of a hundred shares is a cell of numbers: in use, healthy, all."""
    units = "u" * 3 + "f" * 90 + "x" * 7
    text = "\n".join(line.plain for line in draw(_view(2, units), 80, 60))
    assert "GPU 0 3/93/100" in text


PROBLEM = "/tmp/dp-abcdefgh/config/nvidia.yaml:{line}: sharing.timeSlicing.resources[0].replicas: found 0; write a whole number from 1 to 65,536"  # noqa: E501 - as the daemon says it
UNMET = "nvidia.yaml:7 sharing.timeSlicing.resources[1]: nvidia.com/gpus: no device of it is here"


def _unspaced(text: str) -> str:
    """Without the places where lines may break."""
    return "".join(text.split())


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 40), (160, 50), (40, 30)])
def test_what_is_wrong_with_the_config_can_be_read(width: int, height: int) -> None:
    """A refusal and an unmet entry are there whole, with file, line and remedy."""
    view = replace(_view(8, UNITS), refused=(PROBLEM.format(line=6),), unmet=(UNMET,))
    lines = draw(view, width, height)
    said = _unspaced("".join(line.plain for line in lines))
    assert _unspaced(f"config REFUSED {PROBLEM.format(line=6).rpartition('/')[2]}") in said
    assert _unspaced(f"config UNMET {UNMET}") in said
    assert len(lines) <= height
    assert max(line.cell_len for line in lines) <= width


@pytest.mark.parametrize(("height", "shown"), [(24, 4), (60, 4), (18, 3)])
def test_problems_without_room_are_counted(height: int, shown: int) -> None:
    """At most four problems stand there, fewer on a low terminal, and how many more there are."""
    problems = tuple(PROBLEM.format(line=line) for line in range(1, 10))
    text = [line.plain for line in draw(replace(_view(8, UNITS), refused=problems), 80, height)]
    assert sum("config REFUSED" in line for line in text) == shown
    assert f"and {9 - shown} more" in text


@pytest.mark.parametrize(("ascii_only", "sign"), [(False, "·"), (True, "-")])
def test_leaving_units_have_a_sign_of_their_own(*, ascii_only: bool, sign: str) -> None:
    """A leaving unit is drawn unlike an unhealthy one, and the legend says what it is."""
    lines = draw(_view(2, "llll"), 80, 40, ascii_only=ascii_only)
    text = "\n".join(line.plain for line in lines)
    assert f"GPU 1 {sign * 4}" in text
    assert f"{sign} leaving" in text


def test_many_leaving_units_are_no_alarm() -> None:
    """In a cell of numbers leaving units are not healthy, but only unhealthy ones make it red."""
    for bad, red in (("l", False), ("x", True)):
        lines = draw(_view(1, "u" * 3 + "f" * 90 + bad * 7), 80, 60)
        (cell,) = (line for line in lines if "GPU 0 3/93/100" in line.plain)
        assert any("red" in str(span.style) for span in cell.spans) is red


def test_a_right_config_takes_no_room() -> None:
    """While nothing is wrong there is no block, and no empty line for it."""
    right = draw(_view(8, UNITS), 80, 60)
    wrong = draw(replace(_view(8, UNITS), unmet=("short",)), 80, 60)
    assert not any("config" in line.plain and "UNMET" in line.plain for line in right)
    assert len(wrong) == len(right) + 2


def test_plain_characters_where_there_are_no_others() -> None:
    """On a terminal without Unicode every line is ASCII."""
    lines = draw(_view(16, UNITS), 60, 40, ascii_only=True)
    assert all(line.plain.isascii() for line in lines)
    assert any("GPU 0 #oox" in line.plain for line in lines)


def test_an_empty_node_says_so() -> None:
    """Before anything is registered the view has words for it."""
    empty = NodeView(machine="none", configs=("/c/nvidia.yaml",), elapsed=0)
    text = "\n".join(line.plain for line in draw(empty, 80, 24))
    assert "nothing registered" in text
    assert "no latencies yet" in text


def test_no_color_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR set no colour is written, and the state of units is still to be seen."""
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=30, legacy_windows=False)
    reporter = LiveReporter(console)
    reporter.start()
    reporter.draw(lambda: _view(16, UNITS))
    reporter.stop()
    assert "GPU 3 ●○○✗" in out.getvalue().replace("\x1b[0m", "").replace("\x1b[1m", "")
    assert "\x1b[36m" not in out.getvalue()


def test_last_words_stay_on_the_screen() -> None:
    """What the daemon died of is printed once the screen is given back."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, height=30)
    reporter = LiveReporter(console)
    reporter.start()
    reporter.tell(Happening(event="daemon", text="the daemon ended", fields={"last": ["[oh no]"]}))
    reporter.stop()
    reporter.tell(Happening(event="end", text="ended after 3 s"))
    after = out.getvalue().rpartition("\x1b[?1049l")[2]
    assert "[oh no]" in after
    assert "the daemon ended" in after
    assert "ended after 3 s" in after


def test_it_is_not_drawn_too_often() -> None:
    """Two looks in a row draw once."""
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=30)
    reporter = LiveReporter(console)
    looks = []

    def look() -> NodeView:
        looks.append(1)
        return replace(_view(1, "f"), elapsed=len(looks))

    reporter.start()
    reporter.draw(look)
    reporter.draw(look)
    reporter.stop()
    assert len(looks) == 1
