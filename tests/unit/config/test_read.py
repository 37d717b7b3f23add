"""Whatever stands in the file's place has an outcome."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from deviceplugin.config.rules import Problem
from deviceplugin.events import ConfigAccepted, ConfigMissing, ConfigRefused
from deviceplugin.watch.config_file import Outcome, read

NOW = 5.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a config that is not there."""
    return tmp_path / "nvidia.yaml"


def outcome(path: Path) -> Outcome:
    """Read a file of NVIDIA's."""
    return read(path, "nvidia", {}, NOW)


def refusal(path: Path) -> Problem:
    """Read a file that is refused with one problem."""
    found = outcome(path)
    assert isinstance(found, ConfigRefused)
    assert found.source == str(path)
    assert found.at == NOW
    (problem,) = found.problems
    assert problem.file == str(path)
    return problem


def test_good(file: Path) -> None:
    """A good file is accepted together with its text, for the state folder."""
    file.write_text("sharing: {timeSlicing: {replicas: 4}}\n")
    found = outcome(file)
    assert isinstance(found, ConfigAccepted)
    assert found.text == file.read_text()
    assert found.config.source == str(file)
    assert found.config.rules[0].replicas == 4
    assert found.at == NOW


def test_environment(file: Path) -> None:
    """Variables count, and their problems refuse the config."""
    file.write_text("")
    found = read(file, "nvidia", {"MIG_STRATEGY": "mixed"}, NOW)
    assert isinstance(found, ConfigRefused)
    assert found.problems[0].path == "MIG_STRATEGY"


@pytest.mark.parametrize(
    "name", ["nvidia.yaml", "no/such/folder.yaml", "plain/nvidia.yaml", "link"]
)
def test_missing(tmp_path: Path, name: str) -> None:
    """No file, no folder, a file in the folder's place, a dead link: the config is missing."""
    (tmp_path / "plain").write_text("")
    (tmp_path / "link").symlink_to("nowhere")
    assert outcome(tmp_path / name) == ConfigMissing(source=str(tmp_path / name), at=NOW)


def test_folder(file: Path) -> None:
    """A folder is refused, with the path to write instead."""
    file.mkdir()
    problem = refusal(file)
    assert str(problem) == f"{file}: found a folder; name a file in it, such as {file}/nvidia.yaml"


def test_fifo(file: Path) -> None:
    """A FIFO is refused, and does not hang the reader."""
    os.mkfifo(file)
    assert "it is a FIFO" in refusal(file).found


def test_loop(file: Path) -> None:
    """A link to itself is refused."""
    file.symlink_to(file.name)
    assert "cannot be read" in refusal(file).found


def test_null_device(file: Path) -> None:
    """A link to /dev/null is the empty config, as the incumbents' tools use it."""
    file.symlink_to("/dev/null")
    found = outcome(file)
    assert isinstance(found, ConfigAccepted)
    assert found.text == ""


def test_endless_device(file: Path) -> None:
    """A file without an end is refused once it is too long."""
    file.symlink_to("/dev/zero")
    assert "1,048,577 bytes" in refusal(file).found


def test_ten_megabytes(file: Path) -> None:
    """A file too big is refused by its size."""
    with file.open("wb") as opened:
        opened.truncate(10 << 20)
    problem = refusal(file)
    assert "10,485,760 bytes" in problem.found
    assert "at most 1,048,576 bytes" in problem.remedy


@pytest.mark.parametrize(
    ("content", "line"), [(b"a: 1\nb: \xff", 2), (b"version: v1\n\x00", 2)], ids=["latin", "NUL"]
)
def test_no_text(file: Path, content: bytes, line: int) -> None:
    """Bytes that are no text are refused at their line."""
    file.write_bytes(content)
    assert refusal(file).line == line


def test_unreadable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that we may not read is refused with what to do about it."""
    file.write_text("version: v1")
    file.chmod(0)
    if os.geteuid() == 0:  # root may read anything: let the system say no
        monkeypatch.setattr(os, "open", denied)
    problem = refusal(file)
    assert "may not read" in problem.found
    assert "chmod a+r" in problem.remedy
    file.chmod(stat.S_IRUSR | stat.S_IWUSR)


def denied(path: object, _flags: int) -> int:
    """Stand for ``os.open`` of a file without permissions."""
    raise PermissionError(13, "Permission denied", path)


def test_all_problems_come_through(file: Path, refused: Callable[..., tuple[Problem, ...]]) -> None:
    """Problems of the text are those that loading it gives."""
    text = "version: v2\nflags: {x: 1}\n"
    file.write_text(text)
    found = outcome(file)
    assert isinstance(found, ConfigRefused)
    assert [problem.line for problem in found.problems] == [p.line for p in refused(text)]
