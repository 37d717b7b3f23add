"""Follows ``kubelet.sock``: absent, refusing, accepting, or a new file after a restart."""

import contextlib
import errno
import logging
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from watchdog.events import (
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

from deviceplugin.events import Emit, KubeletChanged
from deviceplugin.published import Published

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver

logger = logging.getLogger(__name__)

NAME = "kubelet.sock"

Identity = tuple[int, int]
"""Inode number and ctime in ns: ext4 gives a new socket the old one's inode number."""

_FIRST_RETRY = 0.002  # a starting kubelet binds first and listens a moment later
_LOOK_WITHOUT_INOTIFY = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSeen:
    """What stands at ``kubelet.sock``.

    Attributes:
        identity: the file, when it is a socket that accepted a connection.
        problem: why it is not, in words for people; "" when it is.

    """

    identity: Identity | None = None
    problem: str = "not looked at yet"


class KubeletSocketWatch:
    """Publishes what stands at ``kubelet.sock`` within milliseconds of a change."""

    def __init__(
        self, folder: Path, seen: Published[KubeletSeen], emit: Emit, *, look_every: float = 1.0
    ) -> None:
        """Watch ``folder``; it need not exist. Nothing starts here.

        ``look_every`` is seconds between looks that inotify did not ask for.
        """
        self._path = folder / NAME
        self._folder = folder
        self._seen = seen
        self._emit = emit
        self._look_every = look_every
        self._look_now = threading.Event()
        self._suspected = False
        self._last_accepted: Identity | None = None
        self._refusing: Identity | None = None
        self._retry = _FIRST_RETRY

    def suspect(self) -> None:
        """Connect once more: somebody found the kubelet silent. Callable from any thread."""
        self._suspected = True
        self._look_now.set()

    def wake(self) -> None:
        """Look now, and at the stop flag."""
        self._look_now.set()

    def run(self, stop: threading.Event) -> None:
        """Follow the socket until ``stop`` is set (and ``wake`` called)."""
        with _Notices(self._folder, self._look_now) as notices:
            while not stop.is_set():
                self._look_now.clear()
                notices.follow()
                limit = self._look_every if notices.live else _LOOK_WITHOUT_INOTIFY
                self._look_now.wait(min(self._look(), limit))

    def _look(self) -> float:
        """Publish what is there; returns in how many seconds to look again."""
        before = self._seen.value
        now = self._examine(before)
        if now != before:
            # First what people read, so that it precedes the registration that follows.
            self._report(now)
            self._seen.set(now)
        if self._refusing is None:
            return self._look_every
        self._retry = min(2 * self._retry, self._look_every)
        return self._retry

    def _examine(self, before: KubeletSeen) -> KubeletSeen:
        suspected, self._suspected = self._suspected, False
        identity, problem = _identify(self._path)
        if identity is None:
            self._refusing = None
            return KubeletSeen(problem=problem)
        if identity == before.identity and not suspected:
            return before
        error = connect_error(self._path)
        if error:
            self._note_refusal(identity)
            return KubeletSeen(problem=_refusal(self._path, error))
        self._refusing = None
        return KubeletSeen(identity=identity, problem="")

    def _note_refusal(self, identity: Identity) -> None:
        if self._refusing != identity:
            self._refusing = identity
            self._retry = _FIRST_RETRY

    def _report(self, now: KubeletSeen) -> None:
        last = self._last_accepted
        state = "absent"
        if now.identity is not None:
            state = "present" if last in {None, now.identity} else "restarted"
            self._last_accepted = now.identity
        detail = now.problem or f"{self._path} accepts connections"
        logger.info("kubelet %s", state, extra={"detail": detail})
        self._emit(
            KubeletChanged(
                state=state,
                detail=detail,
                identity="-".join(map(str, now.identity or ())),
                at=time.monotonic(),
            )
        )


def _identify(path: Path) -> tuple[Identity | None, str]:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None, _missing(path)
    except OSError as error:
        return None, f"{path} cannot be looked at: {error.strerror}"
    if not stat.S_ISSOCK(found.st_mode):
        return None, f"{path} is not a socket: remove it and restart the kubelet, which makes it"
    return (found.st_ino, found.st_ctime_ns), ""


def _missing(path: Path) -> str:
    if not path.parent.is_dir():
        return (
            f"there is no folder {path.parent}: the kubelet has not made it yet, or it is not"
            " mounted into this container"
        )
    return f"there is no {path}: the kubelet is not running, or has another plugin folder"


def _refusal(path: Path, error: int) -> str:
    if error == errno.ECONNREFUSED:
        return f"{path} refuses connections: the kubelet is not running"
    return f"{path} cannot be connected to: {os.strerror(error)}"


def connect_error(path: Path) -> int:
    """Connect to a Unix socket and hang up; returns 0 or the error number."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            return probe.connect_ex(os.fspath(path))
        except OSError:
            # A path over the limit never reaches the system.
            return errno.ENAMETOOLONG


class _Notices(FileSystemEventHandler):
    """inotify on the folder, set up again when it is another folder."""

    def __init__(self, folder: Path, look_now: threading.Event) -> None:
        self._folder = folder
        self._look_now = look_now
        self._observer: BaseObserver | None = None
        self._followed: tuple[int, int] | None = None
        self.live = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def on_any_event(self, event: FileSystemEvent) -> None:
        if any(os.fsdecode(path).endswith(NAME) for path in _paths(event)):
            self._look_now.set()

    def follow(self) -> None:
        """See that the folder that is there now is the one followed."""
        found = _folder_inode(self._folder)
        if found == self._followed:
            return
        self._end()
        if found is not None:
            self._begin()
            self._followed = found

    def _begin(self) -> None:
        try:
            # Making it takes an inotify instance already.
            self._observer = observer = Observer()
            observer.name = "kubelet-inotify"
            observer.schedule(
                self,
                str(self._folder),
                event_filter=[FileCreatedEvent, FileMovedEvent, FileDeletedEvent],
            )
            observer.start()
        except OSError as error:
            self._end()
            logger.warning(
                "no inotify for the plugin folder, looking at it instead",
                extra={"error": str(error), "seconds": _LOOK_WITHOUT_INOTIFY},
            )
        else:
            self.live = True

    def _end(self) -> None:
        observer, self._observer = self._observer, None
        self.live, self._followed = False, None
        if observer is not None:
            observer.stop()
            with contextlib.suppress(RuntimeError):
                observer.join(1.0)


def _paths(event: FileSystemEvent) -> Iterator[str | bytes]:
    yield event.src_path
    yield event.dest_path


def _folder_inode(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
