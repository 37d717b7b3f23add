"""Our daemon as a process beside a kubelet, with its config and its simulated hardware."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kubelet.node import GPU
from tests.kubelet.until import until

TIMINGS = {
    "holders-poll": 0.5,
    "holders-poll-draining": 0.2,
    "withdrawn-hold": 1.0,
    "restart-hold": 3.0,
    "recovery-hold": 0.5,
    "audit-interval": 0.5,
    "audit-settle": 0.5,
}
"""Lowered bounds. The pause after a lost stream stays real: a lower one would prove nothing."""

_NEVER_RIGHT = ("Traceback", "Exception ignored", "Fatal Python error")
_KEPT = ("PATH", "HOME", "LANG", "VIRTUAL_ENV")


class Process:
    """``deviceplugin run VENDOR``.

    Attributes:
        begun: when it was started, in seconds of CLOCK_MONOTONIC.

    """

    def __init__(self, command: Sequence[str], log_file: Path) -> None:
        self.begun = time.monotonic()
        self.log_file = log_file
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
            )

    @property
    def log(self) -> str:
        """All it has logged."""
        return self.log_file.read_text(errors="replace")

    def said(self, *words: str) -> int:
        """How many lines of the log have all these words."""
        return sum(all(word in line for word in words) for line in self.log.splitlines())

    def says(self, *words: str, seconds: float = 10.0) -> bool:
        """Wait for a line with all these words."""
        return until(lambda: self.said(*words), seconds=seconds)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal and wait for the end."""
        self._process.send_signal(number)
        self._process.wait(10)

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        return self._process.wait(10)


class Ours:
    """Everything of ours beside one kubelet; processes come and go, files stay.

    Attributes:
        processes: all that were started, oldest first.

    """

    def __init__(self, root: Path, vendor: str = "nvidia") -> None:
        self.processes: list[Process] = []
        self._root = root
        self._vendor = vendor
        self._config = root / "config" / f"{vendor}.yaml"
        self._control = root / "control"
        self._config.parent.mkdir()
        self._control.touch()

    def start(self, *flags: str, machine: str | Path = "h100x8", **timings: float) -> Process:
        """Start a process; ``timings`` are those of ``--timing``, with underscores."""
        asked = {name.replace("_", "-"): value for name, value in timings.items()}
        command = [sys.executable, "-m", "deviceplugin", "run", self._vendor]
        command += ["--simulate", str(machine), "--simulate-control", str(self._control)]
        command += ["--config", str(self._config), "--state-dir", str(self._root / "state")]
        command += ["--plugin-dir", str(self._root / "device-plugins")]
        command += ["--pod-resources", str(self._root / "pod-resources" / "kubelet.sock")]
        command += ["--metrics-address", ""]
        for name, value in {**TIMINGS, **asked}.items():
            command += ["--timing", f"{name}={value}"]
        log_file = self._root / f"daemon{len(self.processes)}.log"
        self.processes.append(Process([*command, *flags], log_file))
        return self.processes[-1]

    def share(self, replicas: int, **more: object) -> float:
        """Share each GPU so often, as the config says it; returns the moment.

        ``more`` are further keys of the entry, such as ``rename``.
        """
        return self.configure({"name": GPU, "replicas": replicas, **more})

    def configure(self, *entries: Mapping[str, object]) -> float:
        """Put a config with these entries of time slicing in place; returns the moment."""
        return self.write(sharing={"timeSlicing": {"resources": entries}})

    def write(self, **keys: object) -> float:
        """Put a config with these keys in place; returns the moment."""
        new = self._config.with_suffix(".new")
        new.write_text(json.dumps({"version": "v1", **keys}))
        new.rename(self._config)
        return time.monotonic()

    def happen(self, **step: object) -> float:
        """Let something happen to the hardware, as ``xid=79, gpu=3``; returns the moment."""
        with self._control.open("a") as file:
            file.write(json.dumps(step) + "\n")
        return time.monotonic()

    def close(self) -> None:
        """End all processes and show their logs; asserts that none of them tells of a bug."""
        for process in self.processes:
            process.end(signal.SIGKILL)
            sys.stdout.write(f"--- {process.log_file.name}\n{process.log}")
        lines = [line for process in self.processes for line in process.log.splitlines()]
        assert not [line for line in lines if _is_bug(line)]


def _is_bug(line: str) -> bool:
    told_to_people = "config refused" in line
    return (" ERROR " in line and not told_to_people) or line.startswith(_NEVER_RIGHT)
