"""Notices when the config file is written, and when exactly that was."""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from watchdog.events import FileSystemEvent, FileSystemEventHandler

from deviceplugin.simulation.control import observe
from deviceplugin.simulation.facts import Edited


class ConfigEdits(FileSystemEventHandler):
    """Watches one config file, also as part of a mounted ConfigMap."""

    def __init__(self, path: Path, on_fact: Callable[[Edited], None], vendor: str = "") -> None:
        super().__init__()
        self._vendor = vendor
        self._path = path
        self._on_fact = on_fact
        self._seen = written_at(path)

    def watch(self, stop: threading.Event) -> None:
        """Start watching until ``stop`` is set."""
        observe(self._path.parent, self, stop)

    def on_any_event(self, _event: FileSystemEvent) -> None:
        """Tell when the file is another one than before."""
        written = written_at(self._path)
        if written > self._seen:
            self._seen = written
            at = time.monotonic() - (time.time() - written)
            self._on_fact(Edited(at=at, vendor=self._vendor))


def written_at(path: Path) -> float:
    """When the file got its present content, in seconds of the epoch; 0 where there is none.

    The change time counts a rename too; in a ConfigMap the swapped ``..data`` link is younger
    than the files behind it.
    """
    times = [0.0]
    for part, follow in ((path, True), (path, False), (path.parent / "..data", False)):
        with contextlib.suppress(OSError):
            times.append(part.stat(follow_symlinks=follow).st_ctime)
    return max(times)
