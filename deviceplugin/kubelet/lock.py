"""One process of ours for each plugin folder and vendor: an flock on a plain file there.

A starting kubelet removes sockets from its folder and leaves plain files alone.
"""

import contextlib
import fcntl
import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """How a try to take the lock ended.

    Attributes:
        held: we have it.
        holder_pid: who has it, in the holder's pid namespace; None when not known.
        problem: why the lock cannot even be tried, in words for people.

    """

    held: bool = False
    holder_pid: int | None = None
    problem: str = ""


class PluginLock:
    """The lock of one vendor in one plugin folder; any thread may ask ``is_intact``."""

    def __init__(self, folder: Path, vendor: str) -> None:
        self.path = folder / f".deviceplugin-{vendor}.lock"
        self._file: int | None = None

    def take(self) -> Taken:
        """Try once, without waiting. Having it already counts as taken."""
        if self.is_intact():
            return Taken(held=True)
        self.release()
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            return Taken(problem=_problem(self.path, error))
        return self._lock(file)

    def _lock(self, file: int) -> Taken:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        except BlockingIOError:
            holder = _pid(file)
            os.close(file)
            return Taken(holder_pid=holder)
        except OSError as error:
            os.close(file)
            return Taken(problem=_problem(self.path, error))
        self._file = file
        # Somebody may have removed the file between our open and our lock.
        return Taken(held=True) if self.is_intact() else Taken()

    def is_intact(self) -> bool:
        """Whether we have the lock and its file is the one in the folder that is there now."""
        file = self._file
        if file is None:
            return False
        try:
            ours, there = os.fstat(file), self.path.stat()
        except OSError:
            return False
        return (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino)

    def release(self) -> None:
        """Give it back; the file stays, because removing a lock file is never safe."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _pid(file: int) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(os.pread(file, 32, 0))
    return None


def _problem(path: Path, error: OSError) -> str:
    return (
        f"{path} cannot be locked: {error.strerror}. The plugin folder must exist, be mounted"
        " read-write and be writable for us"
    )


def end_holder(pid: int, vendor: str, procfs: Path = Path("/proc")) -> bool:
    """Send SIGTERM to ``pid`` if that is a ``deviceplugin run VENDOR`` that we can see.

    Returns whether the signal was sent. Another pid namespace may use the same number for
    something else, hence the look at the command line.
    """
    if pid == os.getpid() or not _is_ours(procfs / str(pid) / "cmdline", vendor):
        return False
    try:
        os.kill(pid, signal.SIGTERM)
    except OSError:
        return False
    return True


def _is_ours(cmdline: Path, vendor: str) -> bool:
    try:
        arguments = cmdline.read_bytes().split(b"\0")
    except OSError:
        return False
    program = any(_is_program(os.fsdecode(argument)) for argument in arguments)
    return program and vendor.encode() in arguments


def _is_program(argument: str) -> bool:
    return Path(argument).name == "deviceplugin" or argument.endswith("/deviceplugin/__main__.py")
