"""`deviceplugin simulate` as a process of its own, read line by line."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

PATIENCE = 20.0  # seconds: a machine that is busy with other tests is slow

Event = Mapping[str, object]
Matches = Callable[[Event], bool]


class Simulation:
    """A running `simulate --json`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        self.process = process
        self.seen: list[Event] = []
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        reading = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        reading.start()

    def _read(self, out: IO[str]) -> None:
        for line in out:
            self._lines.put(line)
        self._lines.put(None)

    def until(self, event: str, matches: Matches = lambda _event: True) -> Event:
        """Return the next event of that kind that matches."""
        deadline = time.monotonic() + PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            with suppress(queue.Empty):
                line = self._lines.get(timeout=left)
                assert line is not None, f"it ended before {event}: {self.seen[-5:]}"
                self.seen.append(json.loads(line))
                if self.seen[-1]["event"] == event and matches(self.seen[-1]):
                    return self.seen[-1]
        raise AssertionError(f"no {event} in time: {self.seen[-5:]}")

    def end(self) -> int:
        """Read the rest of the story; return the exit code."""
        code = self.process.wait(PATIENCE)
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            self.seen.append(json.loads(line))
        return code

    @property
    def root(self) -> Path:
        """Its temporary folder."""
        return Path(str(self.seen[0]["plugin_dir"])).parents[1]


Start = Callable[..., Simulation]


def command(*arguments: str) -> tuple[str, ...]:
    """Return the command line of a simulation."""
    return (sys.executable, "-m", "deviceplugin", "simulate", *arguments)


@pytest.fixture
def environment() -> Iterator[Mapping[str, str]]:
    """Our environment without settings of the daemon's, and with a short temporary folder.

    Simulations that are killed leave their folders in it.
    """
    ours = {key: value for key, value in os.environ.items() if not key.startswith("DEVICEPLUGIN_")}
    with tempfile.TemporaryDirectory(prefix="dp", ignore_cleanup_errors=True) as name:
        yield {**ours, "TMPDIR": name}


@pytest.fixture
def start(environment: Mapping[str, str]) -> Iterator[Start]:
    """Start simulations that tell JSON; they are ended with the test."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **variables: str) -> Simulation:
        process = subprocess.Popen(
            command("--json", *arguments),
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, **variables},
        )
        running.append(process)
        return Simulation(process)

    yield start
    for process in running:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def simulate_command() -> Callable[..., tuple[str, ...]]:
    """Make command lines of simulations."""
    return command
