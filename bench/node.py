"""A node of its own for a bench: a kubelet here, the real daemon in a process beside it."""

import os
import queue
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.process import BenchFailedError, Process
from deviceplugin.simulation.kubelet import Change, ChangeKind, SimulatedKubelet

GPU = "nvidia.com/gpu"

GPUS = 8
"""Of the machine that is simulated unless a bench says otherwise."""


def sharing(replicas: int) -> str:
    """Make a config text that lists so many units for each GPU."""
    return (
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
        f"    - {{name: {GPU}, replicas: {replicas}}}\n"
    )


class Node:
    """A kubelet that runs, and a daemon over a simulated machine, started at ``__enter__``.

    Attributes:
        kubelet: keeps the real rules; lives in this process, not in the measured one.
        daemon: the measured process.

    """

    def __init__(
        self,
        *,
        replicas: int = 1,
        machine: str = "h100x8",
        timings: Sequence[str] = (),
        start: bool = True,
    ) -> None:
        """Make the folders; ``start`` False leaves the daemon to ``start_daemon``."""
        # Short, for sockets in it have to fit 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="dpb", dir="/tmp"))
        self._machine = machine
        self._timings = timings
        self._start = start
        self._changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
        self._control = self.folder / "control"
        self._control.touch()
        self._data = self.folder / "config"
        self._swaps = 0
        self._units = GPUS * replicas
        self.swap_config(sharing(replicas) if replicas > 1 else "")
        self.kubelet = SimulatedKubelet(
            self.folder, on_change=self._changes.put, rate_limited=False, keep=100
        )
        self.daemon: Process

    def __enter__(self) -> Self:
        self.kubelet.start()
        if self._start:
            self.start_daemon()
            self.next_list(self._units)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if hasattr(self, "daemon"):
            self.daemon.stop()
        self.kubelet.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_daemon(self, *flags: str) -> Process:
        """Start the daemon; returns at once."""
        timings = [word for pair in self._timings for word in ("--timing", pair)]
        machine = [] if not self._machine else ["--simulate", self._machine]
        self.daemon = Process(
            [*self._places(), *machine, *timings, *flags], self.folder / "log", self._environment()
        )
        return self.daemon

    def _places(self) -> list[str]:
        return [
            f"--plugin-dir={self.kubelet.plugin_dir}",
            f"--pod-resources={self.kubelet.pod_resources}",
            f"--state-dir={self.folder / 'state'}",
            f"--config={self._data / 'nvidia.yaml'}",
            "--metrics-address=127.0.0.1:0",
        ]

    def _environment(self) -> dict[str, str]:
        ours = {key: value for key, value in os.environ.items() if "DEVICEPLUGIN_" not in key}
        return ours | {"DEVICEPLUGIN_SIMULATE_CONTROL": str(self._control)}

    def swap_config(self, text: str) -> float:
        """Replace the config as a kubelet updates a mounted ConfigMap; gives the moment."""
        self._swaps += 1
        version = self._data / f"..version_{self._swaps}"
        version.mkdir(parents=True)
        (version / "nvidia.yaml").write_text(text)
        link, file = self._data / "..data", self._data / "nvidia.yaml"
        temporary = self._data / "..data_tmp"
        temporary.symlink_to(version.name)
        begun = time.monotonic()
        temporary.rename(link)
        if not file.is_symlink():
            file.symlink_to("..data/nvidia.yaml")
        return begun

    def inject(self, step: str) -> float:
        """Let something happen to the simulated machine; gives the moment before."""
        begun = time.monotonic()
        with self._control.open("a") as control:
            control.write(f"{step}\n")
        return begun

    def next_list(self, healthy: int, seconds: float = 30.0) -> tuple[Change, list[Change]]:
        """Wait for a list with so many healthy units; give it and the lists before it.

        Raises:
            BenchFailedError: none came in time, or the daemon ended.

        """
        before: list[Change] = []
        deadline = time.monotonic() + seconds
        while True:
            change = self._next_change(deadline)
            if change.kind is not ChangeKind.LIST:
                continue
            if len(change.healthy) == healthy:
                return change, before
            before.append(change)

    def _next_change(self, deadline: float) -> Change:
        while time.monotonic() < deadline:
            self.daemon.check()
            try:
                return self._changes.get(timeout=0.5)
            except queue.Empty:
                continue
        raise BenchFailedError(f"no such list came; the daemon's log:\n{self.daemon.log_end()}")

    def forget_changes(self) -> None:
        """Drop what happened so far."""
        while not self._changes.empty():
            self._changes.get()

    def plugin_socket(self) -> Path:
        """Give the daemon's one socket.

        Raises:
            BenchFailedError: there is none, or more than one.

        """
        sockets = self.sockets()
        if len(sockets) != 1:
            raise BenchFailedError(f"{len(sockets)} sockets of the daemon, not 1")
        return sockets[0]

    def sockets(self) -> list[Path]:
        """Give the daemon's sockets that are there now."""
        return list(self.kubelet.plugin_dir.glob("nvidia-*.sock"))
