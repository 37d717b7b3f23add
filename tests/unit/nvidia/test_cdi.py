"""Which CDI names resolve."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.cdi import CdiSpecs, resolve


def spec(*names: str, kind: str = "nvidia.com/gpu") -> str:
    """A spec with these devices."""
    devices = [{"name": name, "containerEdits": {}} for name in names]
    return json.dumps({"cdiVersion": "0.5.0", "kind": kind, "devices": devices})


@pytest.fixture
def dirs(node: Any) -> tuple[Path, ...]:
    """The two usual folders."""
    folders: tuple[Path, ...] = node.options.cdi_dirs
    for folder in folders:
        folder.mkdir(parents=True)
    return folders


def test_both_formats(node: Any, dirs: tuple[Path, ...]) -> None:
    """JSON and YAML specs of any name are read; other files are not."""
    node.write("etc/cdi/a.json", spec("0"))
    node.write("run/cdi/b.yaml", "cdiVersion: 0.6.0\nkind: a.b/c\ndevices:\n- name: x\n")
    node.write("run/cdi/c.txt", spec("2"))
    node.write("run/cdi/d.yaml.tmp", spec("3"))
    assert resolve(dirs) == {"nvidia.com/gpu=0", "a.b/c=x"}


def test_missing_folders(tmp_path: Path) -> None:
    """Folders that do not exist hold no names and are no problem."""
    specs = CdiSpecs([tmp_path / "none"])
    assert specs.names() == frozenset()
    assert specs.problems() == ()


def test_higher_folder_outranks(node: Any, dirs: tuple[Path, ...]) -> None:
    """A name in both folders resolves: the later folder's."""
    node.write("etc/cdi/a.json", spec("0"))
    node.write("run/cdi/a.json", spec("0", "1"))
    assert resolve(dirs) == {"nvidia.com/gpu=0", "nvidia.com/gpu=1"}


def test_conflict(node: Any, dirs: tuple[Path, ...]) -> None:
    """A name that two files of one folder define resolves to neither."""
    node.write("run/cdi/a.json", spec("0", "1"))
    node.write("run/cdi/b.json", spec("1", "2"))
    assert resolve(dirs) == {"nvidia.com/gpu=0", "nvidia.com/gpu=2"}


def test_conflict_below_a_winner(node: Any, dirs: tuple[Path, ...]) -> None:
    """A conflict in the lower folder does not matter where the higher one decides."""
    node.write("etc/cdi/a.json", spec("0"))
    node.write("etc/cdi/b.json", spec("0"))
    node.write("run/cdi/c.json", spec("0"))
    assert resolve(dirs) == {"nvidia.com/gpu=0"}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        pytest.param("x.json", "{", "line 1", id="half a file"),
        pytest.param("x.yaml", "a: [", "flow", id="broken YAML"),
        pytest.param("x.json", "[]", "no cdiVersion", id="a list"),
        pytest.param("x.json", "{}", "no cdiVersion", id="empty"),
        pytest.param("x.yaml", "", "no cdiVersion", id="nothing at all"),
        pytest.param("x.json", '{"cdiVersion": "0.5.0"}', "vendor/class", id="no kind"),
        pytest.param("x.json", spec("0", kind="gpu"), "vendor/class", id="kind without vendor"),
        pytest.param(
            "x.json", '{"cdiVersion": "0.5.0", "kind": "a/b"}', "no list", id="no devices"
        ),
        pytest.param(
            "x.yaml",
            "cdiVersion: 0.5.0\nkind: a/b\ndevices: [{name: 0}]",
            "names are strings",
            id="a number for a name",
        ),
    ],
)
def test_broken_file(node: Any, dirs: tuple[Path, ...], name: str, text: str, problem: str) -> None:
    """A broken file takes away no other's names, and is named with what is wrong."""
    node.write("run/cdi/good.json", spec("0"))
    file = node.write(f"run/cdi/{name}", text)
    specs = CdiSpecs(dirs)
    assert specs.names() == {"nvidia.com/gpu=0"}
    (line,) = specs.problems()
    assert line.startswith(f"{file}: ")
    assert problem in line


def test_folder_in_place_of_a_file(node: Any, dirs: tuple[Path, ...]) -> None:
    """A folder that is named like a spec cannot be read, and is only that."""
    (dirs[1] / "x.json").mkdir()
    node.write("run/cdi/good.json", spec("0"))
    specs = CdiSpecs(dirs)
    assert specs.names() == {"nvidia.com/gpu=0"}
    assert "cannot be read" in specs.problems()[0]


def test_link_to_nowhere(dirs: tuple[Path, ...]) -> None:
    """A link without its file is no spec and no problem: the spec is not there yet."""
    (dirs[1] / "x.json").symlink_to("nothing")
    specs = CdiSpecs(dirs)
    assert specs.names() == frozenset()
    assert specs.problems() == ()


def test_follows_changes(node: Any, dirs: tuple[Path, ...]) -> None:
    """Files that appear, change, heal and go are seen at the next look."""
    specs = CdiSpecs(dirs)
    assert specs.names() == frozenset()
    file = node.write("run/cdi/a.json", spec("0"))
    assert specs.names() == {"nvidia.com/gpu=0"}
    node.write("run/cdi/a.json", spec("0", "1"))
    assert specs.names() == {"nvidia.com/gpu=0", "nvidia.com/gpu=1"}
    node.write("run/cdi/a.json", "{")
    assert specs.names() == frozenset()
    node.write("run/cdi/a.json", spec("2"))
    assert specs.names() == {"nvidia.com/gpu=2"}
    assert specs.problems() == ()
    file.unlink()
    assert specs.names() == frozenset()


def test_reads_only_what_changed(node: Any, dirs: tuple[Path, ...]) -> None:
    """A file of the same size and time is not read again: a scan comes every few seconds."""
    file = node.write("run/cdi/a.json", spec("0"))
    specs = CdiSpecs(dirs)
    specs.names()
    status = file.stat()
    file.write_text(spec("1"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert specs.names() == {"nvidia.com/gpu=0"}
