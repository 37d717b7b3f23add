"""One serving generation by itself: made, checked, stopped."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.kubelet import sockets
from deviceplugin.kubelet.options import KubeletOptions
from deviceplugin.kubelet.server import Generation, ServingError
from deviceplugin.published import Published

GPU = "nvidia.com/gpu"


@pytest.fixture
def make(root: Path, record: Any, gpus: Callable[..., Any]) -> Iterator[Callable[[], Generation]]:
    """Make generations in ``root``; each is stopped at the end."""
    made: list[Generation] = []

    def generation() -> Generation:
        options = KubeletOptions(vendor="nvidia", plugin_dir=root, self_check_deadline=0.5)
        made.append(Generation(GPU, options, Published({GPU: gpus()}), record.emit, lambda: None))
        return made[-1]

    yield generation
    for each in made:
        each.stop(1.0)


def test_nothing_is_there_before_it_is_opened(make: Any, root: Path) -> None:
    """Making a generation opens nothing."""
    generation = make()
    assert not generation.is_intact()
    assert list(root.iterdir()) == []


def test_serves_until_stopped(make: Any, call: Any, root: Path) -> None:
    """Opened it answers, and stopped its socket is gone."""
    generation = make()
    generation.open()
    with call(generation.path) as stub:
        assert stub.GetDevicePluginOptions(api_pb2.Empty()).get_preferred_allocation_available
    assert generation.stop(1.0)
    assert list(root.iterdir()) == []


def test_two_generations_do_not_disturb_each_other(make: Any) -> None:
    """The end of an older one removes its own socket only."""
    older, newer = make(), make()
    older.open()
    newer.open()
    older.stop(1.0)
    assert newer.is_intact()
    assert newer.self_check() == ""


def test_another_file_at_its_path_is_left_alone(root: Path) -> None:
    """What somebody else put at our path since is not ours to remove."""
    path = root / "nvidia-gpu-00000000.sock"
    path.touch()
    inode = sockets.inode(path)
    assert inode is not None
    sockets.remove_own(path, (inode[0], inode[1] + 1))
    assert path.exists()
    sockets.remove_own(path, inode)
    assert not path.exists()


def test_no_folder(make: Any, root: Path) -> None:
    """Without the folder the words say what it must be."""
    generation = make()
    shutil.rmtree(root)
    with pytest.raises(ServingError, match="mounted read-write"):
        generation.open()


def test_plain_file_in_place_of_the_socket(
    make: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file at the socket's path cannot be bound over; it is said and not removed."""
    path = root / "nvidia-gpu-00000000.sock"
    path.touch()
    monkeypatch.setattr(sockets, "fresh", lambda *_: path)
    with pytest.raises(ServingError, match="no socket can be made"):
        make().open()
    assert path.is_file()


def test_wiped_at_once(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that a starting kubelet wiped is not registered: that would fail after 10 s."""
    generation = make()

    def check_and_wipe() -> str:
        generation.path.unlink()
        return ""

    monkeypatch.setattr(generation, "self_check", check_and_wipe)
    with pytest.raises(ServingError, match="was removed at once"):
        generation.open()


def test_our_own_error_is_retried(
    make_rig: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A programming error while serving is logged with its traceback, and tried again."""
    sound, fails = Generation.open, iter([True, True])

    def open_badly(generation: Generation) -> None:
        if next(fails, False):
            raise ZeroDivisionError
        sound(generation)

    monkeypatch.setattr(Generation, "open", open_badly)
    rig = make_rig().up()
    assert caplog.text.count("serving failed") == 2
    assert len(rig.sockets()) == 1
