"""Switches a simulated machine on, for a daemon that serves it.

Device nodes: ``devfs`` is a folder with an empty file for each node, so discovery finds
them as on a real machine; ``BackendOptions.host_node`` makes each be handed out with the
host path /dev/null.
"""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from deviceplugin.backend import BackendOptions
from deviceplugin.simulation.control import ControlFile
from deviceplugin.simulation.machine import Machine, find
from deviceplugin.simulation.machine_file import load
from deviceplugin.simulation.nvml import SimulatedNvml
from deviceplugin.simulation.sysfs import Tree
from deviceplugin.simulation.timeline import Step, Verb

logger = logging.getLogger(__name__)

HOST_NODE = "/dev/null"


def prepare(
    machine: str,
    folder: Path,
    *,
    poll_seconds: float = 1.0,
    rescan_seconds: float = 5.0,
    control: Path | None = None,
) -> BackendOptions:
    """Write a machine's file trees below ``folder`` and return where its parts are.

    ``machine`` is a shipped name or a path. The timeline begins, and ``control`` is watched,
    when the vendor first opens the driver; the threads end with the process.

    Raises:
        DevicePluginError: the machine is not there or its file is wrong.

    """
    hardware = load(find(machine))
    tree = Tree(sysfs=folder / "sys", devfs=folder / "dev", machine=hardware)
    tree.write()
    (folder / "cdi").mkdir()
    driver = SimulatedDriver(hardware, tree, control=control)
    return BackendOptions(
        sysfs=tree.sysfs,
        devfs=tree.devfs,
        # Never the host's specs: they could resolve to its real GPUs.
        cdi_dirs=(folder / "cdi",),
        driver=driver.nvml,
        host_node=HOST_NODE,
        poll_seconds=poll_seconds,
        rescan_seconds=rescan_seconds,
    )


class SimulatedDriver:
    """Lets the steps of a machine happen, to its driver and its file trees.

    Attributes:
        nvml: the door for the vendor.

    """

    def __init__(
        self,
        machine: Machine,
        tree: Tree,
        *,
        control: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.nvml = SimulatedNvml(machine, clock=clock)
        self.nvml.on_open = self.start
        self._machine = machine
        self._tree = tree
        self._control = control
        self._clock = clock
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._started = False
        self._order = itertools.count()
        self._due: list[tuple[float, int, Step]] = []

    def start(self) -> None:
        """Begin the timeline; a second call does nothing."""
        with self._changed:
            if self._started:
                return
            self._started = True
        for step in self._machine.timeline:
            self.schedule(step)
        threading.Thread(target=self._run, name="simulated-timeline", daemon=True).start()
        if self._control:
            self.attach_control(self._control, self._stop)

    def stop(self) -> None:
        """Let nothing happen any more."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()

    def attach_control(self, path: Path, stop: threading.Event) -> None:
        """Let each line appended to ``path`` happen at once, until ``stop`` is set."""
        nvidia = self._machine.nvidia
        ControlFile(path, len(nvidia.gpus) if nvidia else 0, self.schedule).watch(stop)

    def schedule(self, step: Step) -> None:
        """Let a step happen ``step.at`` seconds from now: before the return when that is 0."""
        if step.at <= 0:
            self.apply(step)
            if step.repeat is None:
                return
            step = replace(step, at=step.repeat)
        with self._changed:
            heapq.heappush(self._due, (self._clock() + step.at, next(self._order), step))
            self._changed.notify_all()

    def apply(self, step: Step) -> None:
        """Let a step happen now."""
        logger.info("simulated", extra={"step": str(step)})
        # The bus must never show more than the driver: discovery would wait for the rest.
        if step.verb is Verb.UNPLUG and step.gpu is not None:
            self._tree.unplug(step.gpu)
        self.nvml.apply(step)
        if step.verb is Verb.PLUG and step.gpu is not None:
            self._tree.plug(step.gpu)

    def _run(self) -> None:
        while not self._stop.is_set():
            for step in self._wait():
                self.apply(step)

    def _wait(self) -> list[Step]:
        """Wait for the next step; return those that are due, and plan their repeats."""
        with self._changed:
            left = self._due[0][0] - self._clock() if self._due else None
            if left is None or left > 0:
                self._changed.wait(left)
            return self._take_due()

    def _take_due(self) -> list[Step]:
        now = self._clock()
        steps = []
        while self._due and self._due[0][0] <= now:
            due, order, step = heapq.heappop(self._due)
            steps.append(step)
            if step.repeat is not None:
                heapq.heappush(self._due, (due + step.repeat, order, step))
        return steps
