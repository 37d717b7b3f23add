"""The config file: read once, or followed through every way in which files change."""

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from deviceplugin.config import document
from deviceplugin.config.load import ConfigInvalidError, load
from deviceplugin.config.rules import Problem
from deviceplugin.events import ConfigAccepted, ConfigMissing, ConfigRefused, Emit
from deviceplugin.watch.folders import FolderNotices, deciding_folders

Outcome = ConfigAccepted | ConfigRefused | ConfigMissing

SETTLE = 0.1
"""Seconds for which a plain file must be still: a truncated write can be valid YAML."""

LOOK_EVERY = 2.0
"""Seconds between looks that inotify did not ask for: it may be blind there; more often costs
idle CPU."""

BLIND_EVERY = 0.5
"""The same where inotify has run out."""


def read(path: Path, vendor: str, env: Mapping[str, str], now: float) -> Outcome:
    """Read and load the file; whatever stands in its place has an outcome.

    ``now`` becomes the outcome's ``at``.
    """
    file = str(path)
    try:
        text = _text(path)
        config = load(vendor, text, file=file, env=env)
    except (FileNotFoundError, NotADirectoryError):
        return ConfigMissing(source=file, at=now)
    except ConfigInvalidError as error:
        return ConfigRefused(source=file, problems=error.problems, at=now)
    except document.DocumentError as error:
        return ConfigRefused(source=file, problems=(error.problem(file),), at=now)
    except OSError as error:
        return ConfigRefused(source=file, problems=(_unreadable(path, vendor, error),), at=now)
    return ConfigAccepted(config=config, text=text, at=now)


def _text(path: Path) -> str:
    # O_NONBLOCK: a FIFO in the file's place must not hang us.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a Path cannot open a descriptor
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_size > document.MAX_BYTES:
            raise document.too_big(found.st_size)
        if stat.S_ISFIFO(found.st_mode):
            raise OSError(errno.EINVAL, "it is a FIFO")
        # A character device may be /dev/null, which stands for an empty config.
        return document.decode(file.read(document.MAX_BYTES + 1))


def _unreadable(path: Path, vendor: str, error: OSError) -> Problem:
    found = f"a file that cannot be read ({error.strerror})"
    remedy = "put a plain file there"
    if isinstance(error, IsADirectoryError):
        found, remedy = "a folder", f"name a file in it, such as {path}/{vendor}.yaml"
    elif isinstance(error, PermissionError):
        found = f"a file that this process (user {os.geteuid()}) may not read"
        remedy = "make it readable, with chmod a+r or the volume's defaultMode"
    return Problem(file=str(path), line=0, path="", found=found, remedy=remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What stands at the path, without reading it.

    Attributes:
        target: the file that the path leads to; "" for none.
        linked: a symbolic link in the config's folder decides which file it is.
        mark: changes whenever the file may have.

    """

    target: str
    linked: bool
    mark: tuple[int, ...]


def _look(path: Path) -> _Look:
    try:
        found = path.stat()
        target = os.path.realpath(path)
        plain = os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118 - as above
    except OSError as error:
        return _Look(target="", linked=False, mark=(error.errno or 0,))
    mark = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return _Look(target=target, linked=target != plain, mark=mark)


@dataclass(slots=True)
class ConfigWatch:
    """Emits an outcome whenever the file's meaning changed; the same again emits nothing."""

    path: Path
    vendor: str
    env: Mapping[str, str]
    clock: Callable[[], float] = time.monotonic
    _last: Outcome | None = field(default=None, init=False)
    _read: _Look | None = field(default=None, init=False)
    _moving: _Look | None = field(default=None, init=False)
    _since: float = field(default=0.0, init=False)
    _notices: FolderNotices = field(default_factory=FolderNotices, init=False)

    @property
    def name(self) -> str:
        """The thread's name."""
        return "config-file"

    def saw(self, outcome: Outcome) -> None:
        """Take note of what ``read`` gave at the start, so that it is not said again."""
        self._last = replace(outcome, at=0.0)

    def wake(self) -> None:
        """Look at the stop flag now; whoever sets it calls this. Any thread."""
        self._notices.changed.set()

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Follow the file until ``stop`` is set (and ``wake`` called)."""
        self._read = None
        with self._notices as notices:
            while True:
                notices.changed.clear()
                if stop.is_set():
                    return
                again = self._step(emit)
                # Setting up inotify takes its time, and a change meanwhile shows in the next look.
                if not notices.follow(deciding_folders(self.path)):
                    notices.changed.wait(min(again, LOOK_EVERY if notices.live else BLIND_EVERY))

    def _step(self, emit: Emit) -> float:
        """Look, read when it is time; returns in how many seconds to look again."""
        look = _look(self.path)
        if look == self._read:
            self._moving = None
            return LOOK_EVERY
        wait = self._unsettled(look)
        if wait > 0:
            return wait
        outcome = read(self.path, self.vendor, self.env, self.clock())
        if _look(self.path) != look:
            return 0.0  # it changed while we read
        self._read, self._moving = look, None
        self._tell(outcome, emit)
        return LOOK_EVERY

    def _unsettled(self, look: _Look) -> float:
        """Say for how long a plain file must still be still; 0 for a swapped link."""
        now = self.clock()
        if self._read is None or (look.linked and look.target != self._read.target):
            return 0.0
        if look != self._moving:
            self._moving, self._since = look, now
        return self._since + SETTLE - now

    def _tell(self, outcome: Outcome, emit: Emit) -> None:
        bare = replace(outcome, at=0.0)
        if bare != self._last:
            self._last = bare
            emit(outcome)
