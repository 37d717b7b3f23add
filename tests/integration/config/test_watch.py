"""Following a config file through the ways in which files change."""

import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watchdog.observers import inotify_c

from deviceplugin.events import ConfigAccepted, ConfigMissing, ConfigRefused, Event
from deviceplugin.watch.config_file import ConfigWatch, Outcome, read
from deviceplugin.watch.folders import deciding_folders

QUICK = 0.1
"""Seconds within which a swap must be seen."""

QUIET = 0.8
"""Seconds of silence that show that nothing is said; longer than a look takes to come."""


class Follower:
    """A watch on a thread, and what it said."""

    def __init__(self, path: Path) -> None:
        """Prepare to follow ``path``."""
        self.path = path
        self.watch = ConfigWatch(path, "nvidia", {})
        self._said: queue.Queue[tuple[float, Event]] = queue.Queue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        self.watch.run(lambda event: self._said.put((time.monotonic(), event)), self._stop)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> float:
        """End; returns the seconds that took."""
        begun = time.monotonic()
        self._stop.set()
        self.watch.wake()
        self._thread.join(5)
        assert not self._thread.is_alive()
        return time.monotonic() - begun

    def next(self) -> Event:
        """Wait for what is said next."""
        return self._said.get(timeout=5)[1]

    def next_after(self, begun: float) -> tuple[Event, float]:
        """Wait for what is said next, and say how long after ``begun`` it came."""
        at, event = self._said.get(timeout=5)
        return event, at - begun

    def replicas(self) -> int:
        """Wait for an accepted config; returns its replicas, 0 for none."""
        event = self.next()
        assert isinstance(event, ConfigAccepted), event
        return event.config.rules[0].replicas if event.config.rules else 0

    def quiet(self) -> None:
        """Require that nothing is said for a while."""
        with pytest.raises(queue.Empty):
            self._said.get(timeout=QUIET)


@pytest.fixture
def follow() -> Iterator[Callable[[Path], Follower]]:
    """Return a function that follows a path until the test ends."""
    followers: list[Follower] = []

    def begin(path: Path) -> Follower:
        follower = Follower(path)
        followers.append(follower)
        follower.start()
        return follower

    yield begin
    for follower in followers:
        follower.stop()


def text(replicas: int) -> str:
    """Make a config."""
    return f"version: v1\nsharing: {{timeSlicing: {{replicas: {replicas}}}}}\n"


class ConfigMap:
    """A folder as the kubelet mounts a ConfigMap: ``..data`` is swapped as a whole."""

    def __init__(self, folder: Path, content: str) -> None:
        """Mount ``content`` as nvidia.yaml."""
        self.folder = folder
        self.generation = 0
        folder.mkdir()
        self.swap(content)
        self.file = folder / "nvidia.yaml"
        self.file.symlink_to("..data/nvidia.yaml")

    def swap(self, content: str) -> float:
        """Replace the content as the kubelet does; returns when."""
        self.generation += 1
        new = self.folder / f"..gen{self.generation}"
        new.mkdir()
        (new / "nvidia.yaml").write_text(content)
        link = self.folder / "..data_tmp"
        link.symlink_to(new.name)
        begun = time.monotonic()
        link.rename(self.folder / "..data")
        shutil.rmtree(self.folder / f"..gen{self.generation - 1}", ignore_errors=True)
        return begun


@pytest.fixture
def mounted(tmp_path: Path) -> ConfigMap:
    """Return a mounted ConfigMap with two replicas."""
    return ConfigMap(tmp_path / "etc", text(2))


Follow = Callable[[Path], Follower]


def test_swap(mounted: ConfigMap, follow: Follow) -> None:
    """Each swap of a ConfigMap is read at once, twenty times in a row."""
    follower = follow(mounted.file)
    assert follower.replicas() == 2
    took = []
    for replicas in range(3, 23):
        event, seconds = follower.next_after(mounted.swap(text(replicas)))
        assert isinstance(event, ConfigAccepted)
        assert event.config.rules[0].replicas == replicas
        took.append(seconds)
    assert sorted(took)[10] < QUICK


def test_swap_to_the_same(mounted: ConfigMap, follow: Follow) -> None:
    """A swap to the same content says nothing, nor does the start after ``saw``."""
    follower = Follower(mounted.file)
    follower.watch.saw(read(mounted.file, "nvidia", {}, 0.0))
    follower.start()
    mounted.swap(text(2))
    follower.quiet()
    mounted.swap(text(3))
    assert follower.replicas() == 3
    follower.stop()
    assert follow  # not needed: this follower is told before it starts


def test_swap_to_a_bad_one_and_back(mounted: ConfigMap, follow: Follow) -> None:
    """A bad edit is refused with its line, its correction accepted."""
    follower = follow(mounted.file)
    assert follower.replicas() == 2
    mounted.swap("version: v1\nsharring: {}\n")
    event = follower.next()
    assert isinstance(event, ConfigRefused)
    assert event.problems[0].line == 2
    mounted.swap(text(2))
    assert follower.replicas() == 2


def test_plain_file_rewritten(tmp_path: Path, follow: Follow) -> None:
    """A plain file is read once it has been still, so that a truncated write is never seen."""
    file = tmp_path / "nvidia.yaml"
    file.write_text(text(2))
    follower = follow(file)
    assert follower.replicas() == 2
    begun = time.monotonic()
    with file.open("w") as opened:  # empties it: an empty config would be valid
        for part in ("version: v1\n", "sharing: {timeSlicing: ", "{replicas: 3}}\n"):
            opened.write(part)
            opened.flush()
    event, seconds = follower.next_after(begun)
    assert isinstance(event, ConfigAccepted)
    assert event.text == text(3)
    assert 0.1 <= seconds < 1
    follower.quiet()


def test_slow_writer(tmp_path: Path, follow: Follow) -> None:
    """While a file keeps changing it is not read."""
    file = tmp_path / "nvidia.yaml"
    file.write_text(text(2))
    follower = follow(file)
    assert follower.replicas() == 2
    deadline = time.monotonic() + 0.6
    while time.monotonic() < deadline:  # a writer at work
        file.write_text("")
    file.write_text(text(4))
    assert follower.replicas() == 4


def test_rename_over(tmp_path: Path, follow: Follow) -> None:
    """An editor's rename-over is seen, with or without a moment of absence."""
    file = tmp_path / "nvidia.yaml"
    file.write_text(text(2))
    follower = follow(file)
    assert follower.replicas() == 2
    new = tmp_path / ".nvidia.yaml.swp"
    new.write_text(text(3))
    new.rename(file)
    assert follower.replicas() == 3
    file.rename(tmp_path / "nvidia.yaml~")
    file.write_text(text(4))
    assert follower.replicas() == 4


def test_vanishes_and_comes_back(tmp_path: Path, follow: Follow) -> None:
    """A file that vanishes is reported once; the same content again is news then."""
    file = tmp_path / "nvidia.yaml"
    file.write_text(text(2))
    follower = follow(file)
    assert follower.replicas() == 2
    file.unlink()
    event = follower.next()
    assert isinstance(event, ConfigMissing)
    assert event.source == str(file)
    follower.quiet()
    file.write_text(text(2))
    assert follower.replicas() == 2


def test_folder_comes_later(tmp_path: Path, follow: Follow) -> None:
    """A folder, or its folder, need not exist yet."""
    file = tmp_path / "etc" / "deviceplugin" / "nvidia.yaml"
    follower = follow(file)
    assert isinstance(follower.next(), ConfigMissing)
    file.parent.mkdir(parents=True)
    file.write_text(text(3))
    assert follower.replicas() == 3


def test_folder_made_anew(tmp_path: Path, follow: Follow) -> None:
    """A folder that is removed and made anew is followed again."""
    file = tmp_path / "etc" / "nvidia.yaml"
    file.parent.mkdir()
    file.write_text(text(2))
    follower = follow(file)
    assert follower.replicas() == 2
    shutil.rmtree(file.parent)
    assert isinstance(follower.next(), ConfigMissing)
    file.parent.mkdir()
    file.write_text(text(3))
    assert follower.replicas() == 3


def test_link_into_another_folder(tmp_path: Path, mounted: ConfigMap, follow: Follow) -> None:
    """A link to a mounted ConfigMap follows both: its own change, and the swap behind it."""
    chosen = tmp_path / "chosen" / "nvidia.yaml"
    chosen.parent.mkdir()
    chosen.symlink_to(mounted.file)
    follower = follow(chosen)
    assert follower.replicas() == 2
    event, seconds = follower.next_after(mounted.swap(text(3)))
    assert isinstance(event, ConfigAccepted)
    assert seconds < 1
    other = tmp_path / "other.yaml"
    other.write_text(text(5))
    new = tmp_path / "chosen" / "new"
    new.symlink_to(other)
    new.rename(chosen)
    assert follower.replicas() == 5


def test_becomes_a_folder(tmp_path: Path, follow: Follow) -> None:
    """A folder in the file's place is refused, and a file there again accepted."""
    file = tmp_path / "nvidia.yaml"
    file.mkdir()
    follower = follow(file)
    event = follower.next()
    assert isinstance(event, ConfigRefused)
    assert event.problems[0].found == "a folder"
    file.rmdir()
    file.write_text(text(2))
    assert follower.replicas() == 2


def test_becomes_readable(tmp_path: Path, follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of permissions alone is noticed."""
    file = tmp_path / "nvidia.yaml"
    file.write_text(text(2))
    file.chmod(0)
    really_open = os.open

    def check_mode(path: Path, flags: int) -> int:  # root is never denied
        if not os.stat(path).st_mode & 0o400:  # noqa: PTH116 - beside os.open
            raise PermissionError(13, "Permission denied", path)
        return really_open(path, flags)

    monkeypatch.setattr(os, "open", check_mode)
    follower = follow(file)
    event = follower.next()
    assert isinstance(event, ConfigRefused)
    assert "may not read" in event.problems[0].found
    file.chmod(0o644)
    assert follower.replicas() == 2


def test_without_inotify(
    mounted: ConfigMap,
    follow: Follow,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where inotify instances ran out, the file is looked at instead, and that is said once."""

    def exhausted() -> int:
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr(inotify_c.InotifyFD, "_create_inotify_fd", staticmethod(exhausted))
    follower = follow(mounted.file)
    assert follower.replicas() == 2
    mounted.swap(text(3))
    assert follower.replicas() == 3
    follower.quiet()
    assert caplog.text.count("no inotify for the config's folder") == 1


def test_stops_soon(mounted: ConfigMap) -> None:
    """The stop flag is noticed well within the time an orderly end has."""
    follower = Follower(mounted.file)
    follower.start()
    assert follower.replicas() == 2
    assert follower.stop() < 0.5


def test_starts_again(mounted: ConfigMap) -> None:
    """After a failure the same watch runs again and tells what changed meanwhile."""
    said: list[Outcome] = []
    watch = ConfigWatch(mounted.file, "nvidia", {})
    for replicas in (2, 3):
        stop = threading.Event()
        mounted.swap(text(replicas))

        def emit(event: Event, stop: threading.Event = stop) -> None:
            assert isinstance(event, ConfigAccepted)
            said.append(event)
            stop.set()

        watch.run(emit, stop)
    assert [
        event.config.rules[0].replicas for event in said if isinstance(event, ConfigAccepted)
    ] == [
        2,
        3,
    ]


def test_deciding_folders(mounted: ConfigMap, tmp_path: Path) -> None:
    """The folders of each link and of the file decide; a ConfigMap's inner one never changes."""
    assert list(deciding_folders(mounted.file)) == [str(mounted.folder)]
    chosen = tmp_path / "nvidia.yaml"
    chosen.symlink_to("etc/nvidia.yaml")
    assert list(deciding_folders(chosen)) == [str(tmp_path), str(mounted.folder)]
    assert list(deciding_folders(tmp_path / "a" / "b" / "c.yaml")) == [str(tmp_path)]
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    assert list(deciding_folders(loop)) == [str(tmp_path)]
