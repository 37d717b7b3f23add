"""The cluster's programs as processes, known by pid and start time over any number of runs."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.cluster.node.paths import LOGS, STATE
from tests.cluster.node.shell import ClusterError, ClusterTimeoutError, wait_for

_PIDS = STATE / "pids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was started.

    Attributes:
        started: clock ticks from boot to its start: with the pid it names one process for good.
        path: PATH of the process; "" for ours.

    """

    pid: int
    started: str
    command: Sequence[str]
    path: str


def start(name: str, *words: str | Path, path: str = "") -> None:
    """Start a program in the background; its output goes to a log of its name."""
    LOGS.mkdir(parents=True, exist_ok=True)
    _PIDS.mkdir(parents=True, exist_ok=True)
    command = [str(word) for word in words]
    env = {**os.environ, **({"PATH": path} if path else {})}
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    outputs = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log_of(name)), append, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
        *((os.POSIX_SPAWN_CLOSE, number) for number in _passed_on()),
    ]
    # No Popen: the process outlives the object, and often this process too.
    pid = os.posix_spawn(command[0], command, env, file_actions=outputs, setsid=True)
    record = Record(pid=pid, started=_started(pid), command=command, path=path)
    (_PIDS / name).write_text(json.dumps(asdict(record)))


def _passed_on() -> list[int]:
    # Such as the lock of a shell that calls us: the program would hold it for its whole life.
    numbers = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
    return [number for number in numbers if number > 2 and _is_inheritable(number)]


def _is_inheritable(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:
        return False  # the one that listed the folder


def record_of(name: str) -> Record | None:
    """What was started under a name; None when nothing was."""
    try:
        return Record(**json.loads((_PIDS / name).read_text()))
    except FileNotFoundError:
        return None


def names() -> list[str]:
    """All that was started."""
    return sorted(path.name for path in _PIDS.glob("*"))


def pid_of(name: str) -> int | None:
    """The pid of a program that runs; None when it does not."""
    record = record_of(name)
    if record:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(record.pid, os.WNOHANG)
    return record.pid if record and _started(record.pid) == record.started else None


def again(name: str) -> None:
    """Start a program as it was started before."""
    record = record_of(name)
    if record is None:
        raise ClusterError(f"{name} was not started before")
    start(name, *record.command, path=record.path)


def stop(name: str, *, how: signal.Signals = signal.SIGTERM, seconds: float = 10) -> None:
    """End a program and wait; after so many seconds with SIGKILL."""
    for number in (how, signal.SIGKILL):
        pid = pid_of(name)
        if pid is None:
            return
        os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while pid_of(name) is not None and time.monotonic() < deadline:
            time.sleep(0.02)


def wait_alive(what: str, condition: Callable[[], object], *names: str) -> None:
    """Wait for a condition, and give up when one of the programs dies first.

    Raises:
        ClusterError: one died (the text has the end of its log), or it takes over two minutes
            (the ends of all their logs).

    """

    def met() -> bool:
        dead = [name for name in names if pid_of(name) is None]
        if dead:
            raise ClusterError(f"{dead[0]} died; the end of its log:\n{tail(dead[0])}")
        return bool(condition())

    try:
        wait_for(what, met, seconds=120)
    except ClusterTimeoutError as error:
        logs = "\n".join(f"{name}:\n{tail(name, 5)}" for name in names)
        raise ClusterError(f"{error}; the ends of the logs:\n{logs}") from None


def log_of(name: str) -> Path:
    """Where a program's output goes."""
    return LOGS / f"{name}.log"


def tail(name: str, lines: int = 20) -> str:
    """The end of a program's log."""
    try:
        return "\n".join(log_of(name).read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(no log)"


def _started(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]
