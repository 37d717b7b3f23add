"""Watches a file of further steps: each appended line happens at once.

What the file holds when the watch begins is past. A file that is replaced or shortened
is read from its start. Only complete lines count, so write the newline.
"""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from watchdog.events import (
    FileClosedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.observers.polling import PollingObserver

from deviceplugin.simulation.sections import TextInvalidError
from deviceplugin.simulation.timeline import Gpus, Step, read_line

logger = logging.getLogger(__name__)

# Not opening and closing without a write: our own reads would wake us for ever.
_WRITES: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileClosedEvent,
]


class ControlFile(FileSystemEventHandler):
    """The steps of one control file; ``on_step`` is called on the watching thread."""

    def __init__(self, path: Path, gpus: Gpus, on_step: Callable[[Step], None]) -> None:
        super().__init__()
        self._path = path
        self._gpus = gpus
        self._on_step = on_step
        self._reading = threading.Lock()
        self._inode = 0
        self._offset = 0
        self._lines = 0

    def watch(self, stop: threading.Event) -> None:
        """Start watching until ``stop`` is set; no line written after the return is missed."""
        with self._reading:
            self._new_lines()
        observe(self._path.parent, self, stop)

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Look at the file when anything happened to it."""
        if os.fsdecode(event.src_path) == str(self._path) or event.dest_path:
            self.read()

    def read(self) -> None:
        """Act on the lines that are new."""
        with self._reading:
            for number, line in self._new_lines():
                self._act(number, line)

    def _act(self, number: int, line: str) -> None:
        if not line.strip():
            return
        try:
            step = read_line(line, self._gpus, file=self._path.name, line=number)
        except TextInvalidError as error:
            logger.warning("a control line is wrong and skipped", extra={"problem": str(error)})
        else:
            self._on_step(step)

    def _new_lines(self) -> list[tuple[int, str]]:
        try:
            with self._path.open("rb") as file:
                text = self._rest(file)
        except OSError:
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        lines = complete.decode(errors="replace").splitlines()
        first = self._lines + 1
        self._lines += len(lines)
        return list(enumerate(lines, start=first))

    def _rest(self, file: BinaryIO) -> bytes:
        now = os.fstat(file.fileno())
        if now.st_ino != self._inode or now.st_size < self._offset:
            self._inode, self._offset, self._lines = now.st_ino, 0, 0
        file.seek(self._offset)
        return file.read()


def observe(folder: Path, handler: FileSystemEventHandler, stop: threading.Event) -> None:
    """Watch a folder until ``stop`` is set, by polling where inotify instances ran out."""
    observer = _started(Observer, handler, folder) or _started(PollingObserver, handler, folder)
    threading.Thread(
        target=_stop_later, args=(observer, stop), name="watch-end", daemon=True
    ).start()


def _started(
    make: Callable[[], BaseObserver], handler: FileSystemEventHandler, folder: Path
) -> BaseObserver | None:
    try:
        # Making one takes an inotify instance already, and a thread that only a stop ends.
        observer = make()
    except OSError as error:
        _note(error)
        return None
    try:
        observer.schedule(handler, str(folder), event_filter=_WRITES)
        observer.start()
    except OSError as error:
        _note(error)
        observer.stop()
        return None
    return observer


def _note(error: OSError) -> None:
    logger.warning("no inotify, polling instead", extra={"error": str(error)})


def _stop_later(observer: BaseObserver | None, stop: threading.Event) -> None:
    stop.wait()
    if observer is not None:
        observer.stop()
        observer.join()
