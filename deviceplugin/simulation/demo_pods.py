"""Pods that come and go on a simulated node."""

import contextlib
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deviceplugin.errors import DevicePluginError
from deviceplugin.simulation.facts import PodAdmitted
from deviceplugin.simulation.kubelet import Pod, SimulatedKubelet
from deviceplugin.simulation.machine import Demo

_KINDS = ("train", "infer", "notebook", "batch")
_LARGEST = 2  # units of one pod
_GROW = 0.65  # chance of a start while both are possible: a little above a half


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start a pod that asks for ``count`` units."""

    resource: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """End a pod."""

    pod: str


def choose(
    free: Mapping[str, int], alive: Sequence[str], most: int, chance: random.Random
) -> Start | End | None:
    """Choose what happens next; None when nothing can."""
    resources = [resource for resource, units in sorted(free.items()) if units > 0]
    can_start = bool(resources) and len(alive) < most
    if can_start and (not alive or chance.random() < _GROW):
        resource = chance.choice(resources)
        return Start(resource=resource, count=chance.randint(1, min(_LARGEST, free[resource])))
    return End(pod=chance.choice(alive)) if alive else None


class DemoPods:
    """Starts and ends pods on a kubelet, one thing at a time."""

    def __init__(
        self, kubelet: SimulatedKubelet, demo: Demo, on_fact: Callable[[PodAdmitted], None]
    ) -> None:
        self._kubelet = kubelet
        self._demo = demo
        self._on_fact = on_fact
        self._chance = random.Random(0)  # noqa: S311 - the same show each time, no secret
        self._number = 0

    def run(self, stop: threading.Event) -> None:
        """Go on until ``stop`` is set."""
        while not stop.wait(self._demo.every):
            # The kubelet may be stopping; the next round sees that.
            with contextlib.suppress(DevicePluginError):
                self._turn()

    def _turn(self) -> None:
        match choose(self._free(), list(self._kubelet.pods()), self._demo.pods, self._chance):
            case Start() as start:
                self._start(start)
            case End(pod=pod):
                self._kubelet.remove(pod)
            case None:
                pass

    def _start(self, start: Start) -> None:
        self._number += 1
        name = f"{_KINDS[self._number % len(_KINDS)]}-{self._number}"
        admission = self._kubelet.admit(Pod.asking(name, **{start.resource: start.count}))
        self._on_fact(PodAdmitted(admission=admission))
        if admission.admitted:
            self._kubelet.start_container(name)

    def _free(self) -> Mapping[str, int]:
        held = held_units(self._kubelet)
        return {
            resource: units - len(held.get(resource, ()))
            for resource, units in self._kubelet.allocatable().items()
        }


def held_units(kubelet: SimulatedKubelet) -> Mapping[str, frozenset[str]]:
    """Return the units that pods hold, by resource."""
    held: dict[str, frozenset[str]] = {}
    for containers in kubelet.pods().values():
        for resources in containers.values():
            for resource, units in resources.items():
                held[resource] = held.get(resource, frozenset()) | frozenset(units)
    return held
