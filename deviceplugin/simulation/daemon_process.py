"""The real daemon as a child process; its log is read line by line."""

import ctypes
import json
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from deviceplugin.simulation.facts import Exited, LogLine

_PR_SET_PDEATHSIG = 1
_KEPT_LINES = 10
_STANDARD = ("time", "level", "logger", "message")


class DaemonProcess:
    """Starts, reads and ends a vendor's daemon; ``on_fact`` is called on the reading thread."""

    def __init__(
        self,
        command: Sequence[str],
        on_fact: Callable[[LogLine | Exited], None],
        vendor: str = "",
    ) -> None:
        self._command = command
        self._vendor = vendor
        self._on_fact = on_fact
        self._process: subprocess.Popen[str] | None = None
        self._last: deque[LogLine] = deque(maxlen=_KEPT_LINES)

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Start it. Call this before there are threads: the child prepares itself in between."""
        libc = ctypes.CDLL(None)  # loaded here: after the fork nothing may take a lock

        def die_with_parent() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

        self._process = subprocess.Popen(  # noqa: S603 - our own program
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            process_group=0,  # Ctrl-C is for us; we end the child in order
            preexec_fn=die_with_parent,  # noqa: PLW1509 - no thread runs yet
        )

    def listen(self) -> None:
        """Read its log from now on, on a thread."""
        process = self._process
        if process is not None:
            name = f"{self._vendor or 'daemon'}-log"
            threading.Thread(target=self._read, args=(process,), name=name, daemon=True).start()

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process is not None:
            self._process.terminate()

    def stop(self, seconds: float = 5.0) -> None:
        """Ask it to end; kill it after so long."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        for line in process.stderr or ():
            said = replace(parse(line), vendor=self._vendor)
            self._last.append(said)
            self._on_fact(said)
        self._on_fact(Exited(code=process.wait(), vendor=self._vendor, last=tuple(self._last)))


def parse(line: str) -> LogLine:
    """Read a JSON log line; any other line is a warning of its own: nobody formatted it."""
    try:
        record = json.loads(line)
        message = str(record["message"])
    except (ValueError, KeyError, TypeError):
        return LogLine(message=line.rstrip("\n"), level="warning")
    fields = {key: value for key, value in record.items() if key not in _STANDARD}
    return LogLine(message=message, level=str(record.get("level", "info")), fields=fields)
