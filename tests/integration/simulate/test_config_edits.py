"""Edits of a config file are noticed, with the time of the write itself."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deviceplugin.simulation.config_edits import ConfigEdits
from deviceplugin.simulation.facts import Edited

Edits = queue.SimpleQueue[Edited]
Watch = Callable[[Path], Edits]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Watch a file; returns the queue of its edits."""
    stop = threading.Event()

    def start(path: Path) -> Edits:
        edits: Edits = queue.SimpleQueue()
        ConfigEdits(path, edits.put).watch(stop)
        return edits

    yield start
    stop.set()


def _write(path: Path) -> None:
    path.write_text("b")


def _rename_over(path: Path) -> None:
    fresh = path.with_name(".fresh")
    fresh.write_text("b")
    fresh.rename(path)


@pytest.mark.parametrize("edit", [_write, _rename_over])
def test_an_edit_is_timed(watch: Watch, tmp_path: Path, edit: Callable[[Path], None]) -> None:
    """A write and an editor's rename are told once the file is another one, with their time."""
    path = tmp_path / "nvidia.yaml"
    path.write_text("a")
    edits = watch(path)
    before = time.monotonic()
    edit(path)
    after = time.monotonic()
    tick = 0.02  # the kernel stamps files by its own, coarser clock
    assert before - tick <= edits.get(timeout=10).at <= after + tick


def test_a_config_map_swap_is_an_edit(watch: Watch, tmp_path: Path) -> None:
    """The swap of a ConfigMap's ..data link is the edit, though its files are older."""
    for name in ("..one", "..two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "nvidia.yaml").write_text(name)
    (tmp_path / "..data").symlink_to("..one")
    path = tmp_path / "nvidia.yaml"
    path.symlink_to("..data/nvidia.yaml")
    edits = watch(path)
    fresh = tmp_path / "..data_tmp"
    fresh.symlink_to("..two")
    before = time.monotonic()
    fresh.rename(tmp_path / "..data")
    assert edits.get(timeout=10).at >= before - 0.02


def test_a_neighbour_is_no_edit(watch: Watch, tmp_path: Path) -> None:
    """Another file of the folder tells nothing; the next edit of ours does."""
    path = tmp_path / "nvidia.yaml"
    path.write_text("a")
    edits = watch(path)
    (tmp_path / "amd.yaml").write_text("x")
    threading.Event().wait(0.05)  # longer than a tick of the kernel's clock
    before = time.monotonic()
    _rename_over(path)
    assert edits.get(timeout=10).at >= before - 0.02
    assert edits.empty()
