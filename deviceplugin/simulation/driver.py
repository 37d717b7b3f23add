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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from deviceplugin.backend import BackendOptions
from deviceplugin.simulation.amd_driver import SimulatedAmd
from deviceplugin.simulation.amd_tree import AmdTree
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
    vendor: str = "nvidia",
    poll_seconds: float = 1.0,
    rescan_seconds: float = 5.0,
    control: Path | None = None,
) -> BackendOptions:
    """Write a machine's file trees below ``folder`` and return where its parts are.

    ``machine`` is a shipped name or a path; only ``vendor``'s hardware is in the trees. The
    timeline begins, and ``control`` is watched, when the vendor first opens the driver; the
    threads end with the process.

    Raises:
        DevicePluginError: the machine is not there or its file is wrong.

    """
    hardware = load(find(machine))
    (folder / "cdi").mkdir(parents=True)
    side = _side(hardware, vendor, sysfs=folder / "sys", devfs=folder / "dev")
    SimulatedDriver(hardware, side, control=control)
    return BackendOptions(
        sysfs=folder / "sys",
        devfs=folder / "dev",
        # Never the host's specs: they could resolve to its real GPUs.
        cdi_dirs=(folder / "cdi",),
        driver=side.door,
        host_node=HOST_NODE,
        poll_seconds=poll_seconds,
        rescan_seconds=rescan_seconds,
    )


class Door(Protocol):
    """What all simulated drivers have in common.

    Attributes:
        on_open: called when the vendor comes in.

    """

    on_open: Callable[[], None]


class Side(Protocol):
    """One vendor's hardware: the door to its driver, and what steps do to it."""

    @property
    def vendor(self) -> str:
        """Whose steps happen here."""

    @property
    def door(self) -> Door:
        """What the vendor is given in ``BackendOptions.driver``."""

    def apply(self, step: Step) -> None:
        """Let a step happen now."""


def _side(machine: Machine, vendor: str, *, sysfs: Path, devfs: Path) -> Side:
    tree = Tree(sysfs=sysfs, devfs=devfs, machine=machine)
    if vendor == "amd":
        tree.write_node()
        amd = AmdTree(sysfs=sysfs, devfs=devfs, machine=machine)
        amd.write()
        return AmdSide(door=SimulatedAmd(machine, amd))
    tree.write()
    return NvidiaSide(door=SimulatedNvml(machine), tree=tree)


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaSide:
    """NVIDIA's driver and its trees."""

    door: SimulatedNvml
    tree: Tree
    vendor: str = "nvidia"

    def apply(self, step: Step) -> None:
        """Let a step happen now."""
        # The bus must never show more than the driver: discovery would wait for the rest.
        if step.verb is Verb.UNPLUG and step.gpu is not None:
            self.tree.unplug(step.gpu)
        self.door.apply(step)
        if step.verb is Verb.PLUG and step.gpu is not None:
            self.tree.plug(step.gpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdSide:
    """AMD's driver, which is its trees for the most part."""

    door: SimulatedAmd
    vendor: str = "amd"

    def apply(self, step: Step) -> None:
        """Let a step happen now."""
        self.door.apply(step)


class SimulatedDriver:
    """Lets the steps of a machine happen to one vendor's hardware; others' are not its own."""

    def __init__(
        self,
        machine: Machine,
        side: Side,
        *,
        control: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        side.door.on_open = self.start
        self._machine = machine
        self.side = side
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
        ControlFile(path, self._machine.gpus, self.schedule).watch(stop)

    def schedule(self, step: Step) -> None:
        """Let a step happen ``step.at`` seconds from now: before the return when that is 0."""
        if step.vendor != self.side.vendor:
            return
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
        self.side.apply(step)

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
