"""Notices from inotify on the folders that decide what a path means."""

import contextlib
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver

logger = logging.getLogger(__name__)

_MAX_LINKS = 40  # as many as the kernel follows

# Without opens and plain closes: our own reading must not wake us.
_CHANGES: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    FileClosedEvent,
    DirCreatedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]

Identities = Mapping[str, tuple[int, int]]
"""Folders by path, with device and inode number: one made anew has others."""


def deciding_folders(path: Path) -> Identities:
    """Find the folders in which a change can make ``path`` another file.

    The folder of each symbolic link on the way (a ConfigMap's ``..data`` among them), the
    folder of the file itself, and where something is missing, the last folder there is.
    """
    return {
        folder: identity
        for folder in dict.fromkeys(_folders(path.absolute()))
        if (identity := _identity(folder))
    }


def _folders(path: Path) -> Iterator[str]:
    todo = list(reversed(path.parts[1:]))
    here = path.anchor
    links = 0
    while todo and links <= _MAX_LINKS:
        name = todo.pop()
        step = os.path.normpath(os.path.join(here, name))  # noqa: PTH118 - Path keeps ".."
        target = _target(step)
        if target is None:
            if not todo or not Path(step).is_dir():
                yield from () if _is_generation(here) else (here,)
                return
            here = step
            continue
        yield here
        links += 1
        todo += reversed(Path(target).parts)
        if target.startswith("/"):
            here = todo.pop()


def _is_generation(folder: str) -> bool:
    """Tell a ConfigMap's own folder: nothing in it changes, and it goes with the next swap."""
    return Path(folder).name.startswith("..")


def _target(path: str) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115 - Path.readlink would lose "." and ".."
    except OSError:
        return None


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        found = Path(folder).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class FolderNotices(FileSystemEventHandler):
    """Sets ``changed`` when something happens in the folders that are followed."""

    def __init__(self) -> None:
        """Watch nothing yet; ``follow`` begins."""
        self.changed = threading.Event()
        self.live = False
        self._observer: BaseObserver | None = None
        self._followed: Identities = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._followed = {}

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Take any event: what it means shows in a look at the path."""
        del event
        self.changed.set()

    def follow(self, folders: Identities) -> bool:
        """See that these folders, and no others, are followed; says whether that was new."""
        if folders == self._followed:
            return False
        self._end()
        self._followed = folders
        self._begin(folders)
        return bool(self._followed)

    def _begin(self, folders: Identities) -> None:
        try:
            self._observer = observer = Observer()
            observer.name = "config-inotify"
            observer.start()
            for folder in folders:
                observer.schedule(self, folder, event_filter=_CHANGES, follow_symlink=True)
        except FileNotFoundError:
            self._end()
            self._followed = {}  # gone meanwhile
        except OSError as error:
            self._end()
            logger.warning(
                "no inotify for the config's folder, looking at it instead",
                extra={"error": str(error)},
            )
        else:
            self.live = True

    def _end(self) -> None:
        observer, self._observer = self._observer, None
        self.live = False
        if observer is not None:
            observer.stop()
            with contextlib.suppress(RuntimeError):  # it never started
                observer.join(1.0)
