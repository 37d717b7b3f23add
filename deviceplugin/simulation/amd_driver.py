"""A simulated amdgpu: lets steps happen to its trees, and tells KFD's reset events.

The door of ``vendors/amd`` (see ``door.py``); everything else the vendor reads from the trees.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from deviceplugin.simulation.amd_kfd import gpu_id
from deviceplugin.simulation.amd_tree import AmdTree
from deviceplugin.simulation.machine import BLOCK, Machine
from deviceplugin.simulation.timeline import Step, Verb
from deviceplugin.vendors.amd.door import KfdEvent, KfdEventKind, KfdEvents

logger = logging.getLogger(__name__)

RESET_SECONDS = 2.0
"""From the event before a reset to the one after it."""


class SimulatedAmd:
    """AMD's driver on a machine.

    Attributes:
        on_open: called before each scan.

    """

    def __init__(
        self, machine: Machine, tree: AmdTree, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.vendor = "amd"
        self.on_open: Callable[[], None] = lambda: None
        self._gpus = machine.gpus["amd"]
        self._tree = tree
        self._clock = clock
        self._changing = threading.Lock()
        self._listeners: list[_Subscription] = []

    def began(self) -> None:
        """Let the timeline begin with the first scan."""
        self.on_open()

    def subscribe(self, gpu_ids: Sequence[int]) -> KfdEvents:
        """Listen for events of GPUs; OSError while the driver is not loaded."""
        if not self._tree.loaded:
            raise FileNotFoundError(2, "No such file or directory", "/dev/kfd")
        subscription = _Subscription(frozenset(gpu_ids), self._forget)
        self._listeners = [*self._listeners, subscription]
        return subscription

    def apply(self, step: Step) -> None:
        """Let a step happen now; a reset goes on by itself."""
        with self._changing:
            self._apply(step)

    def _apply(self, step: Step) -> None:
        tree, gpu = self._tree, step.gpu
        match step.verb:
            case Verb.RAS:
                tree.errors(gpu or 0, step.word, _counted(tree, gpu or 0, step.word) + 1)
            case Verb.REPARTITION:
                compute, _, memory = step.word.partition("/")
                tree.repartition(gpu, compute, memory)
            case Verb.RESET:
                self._reset(gpu or 0)
            case Verb.UNPLUG:
                tree.unplug(gpu or 0)
            case Verb.PLUG:
                tree.plug(gpu or 0)
            case Verb.DRIVER:
                self._driver(step.word)
            case Verb.RECOVER:
                for index in range(self._gpus) if gpu is None else [gpu]:
                    tree.heal(index)
            case _:
                logger.warning("AMD's driver has no such step", extra={"step": str(step)})

    def _driver(self, word: str) -> None:
        if word == "back":
            self._tree.load()
        else:
            self._tree.unload()
            for listener in self._listeners:
                listener.end()

    def _reset(self, index: int) -> None:
        self._tell(index, KfdEventKind.GPU_PRE_RESET)
        timer = threading.Timer(RESET_SECONDS, self._after_reset, (index,))
        timer.daemon = True
        timer.start()

    def _after_reset(self, index: int) -> None:
        with self._changing:
            self._tree.heal(index)
        self._tell(index, KfdEventKind.GPU_POST_RESET)

    def _tell(self, index: int, kind: KfdEventKind) -> None:
        ids = {gpu_id(index, part) for part in range(BLOCK)}
        for listener in self._listeners:
            for each in sorted(listener.gpu_ids & ids):
                listener.put(KfdEvent(gpu_id=each, kind=kind, detail="simulated"))

    def _forget(self, subscription: "_Subscription") -> None:
        self._listeners = [each for each in self._listeners if each is not subscription]


class _Subscription:
    """A ``KfdEvents``."""

    def __init__(self, gpu_ids: frozenset[int], forget: Callable[["_Subscription"], None]) -> None:
        self.gpu_ids = gpu_ids
        self._forget = forget
        self._changed = threading.Condition()
        self._events: deque[KfdEvent] = deque()
        self._ended = False

    def put(self, event: KfdEvent) -> None:
        """Tell an event."""
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

    def end(self) -> None:
        """Break: the driver went away."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, seconds: float) -> Sequence[KfdEvent]:
        """Return what came within so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._ended, seconds)
            if self._ended:
                raise OSError(19, "No such device", "/dev/kfd")
            events = tuple(self._events)
            self._events.clear()
        return events

    def close(self) -> None:
        """Stop listening."""
        self._forget(self)


def _counted(tree: AmdTree, index: int, block: str) -> int:
    return tree.gpus[index].errors.get(block, 0)
