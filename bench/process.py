"""One daemon as a process, and what the kernel says of it."""

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path


class BenchFailedError(Exception):
    """Something that a bench waited for did not happen."""


def until(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Wait for a condition.

    Raises:
        BenchFailedError: it did not come true in time.

    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise BenchFailedError(f"not in {seconds:g} s: {what}")
        time.sleep(0.005)


class Process:
    """``deviceplugin run nvidia``; its log goes to a file."""

    def __init__(self, flags: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        """Start it; ``begun`` is the moment before."""
        self.log = log
        self.begun = time.monotonic()
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "deviceplugin", "run", "nvidia", *flags],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=environment,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def check(self) -> None:
        """Tell a dead process from a slow one.

        Raises:
            BenchFailedError: it ended; with the end of its log.

        """
        if self._process.poll() is not None:
            raise BenchFailedError(f"the daemon ended:\n{self.log_end()}")

    def stop(self) -> None:
        """Ask it to end, then make it."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def log_end(self) -> str:
        """Give the last lines it logged."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def resident_mb(self) -> float:
        """Resident memory in MB (10^6 bytes), as ``kubectl top`` and limits count it."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        if found is None:
            raise BenchFailedError(f"the daemon ended:\n{self.log_end()}")
        return int(found[1]) * 1024 / 1e6

    def descriptors(self) -> int:
        """Open file descriptors."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def threads(self) -> int:
        """Threads of the kernel's count, gRPC's own included."""
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    def cpu_seconds(self) -> float:
        """CPU time of all threads that live now, to the microsecond."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def get(self, path: str) -> str:
        """Ask the daemon's HTTP server, at the address its log told."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port()}{path}", timeout=10) as page:
            return str(page.read().decode())

    def _port(self) -> int:
        found = re.findall(r"serving metrics and probes.* port=(\d+)", self.log.read_text())
        if not found:
            raise BenchFailedError(f"no address of metrics in the log:\n{self.log_end()}")
        return int(found[-1])
