"""Our own kubelet, as scenarios ask for it."""

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deviceplugin.model import ContainerEdits
from deviceplugin.simulation.kubelet import (
    Admission,
    ChangeKind,
    Container,
    KubeletCrashedError,
    Pod,
    SimulatedKubelet,
)
from deviceplugin.simulation.kubelet.pods import Devices
from tests.kubelet.node import GPU, Counts, Health, KubeletDiedError, Reached

_ADMIT_SECONDS = 60.0


class Simulated:
    """The simulated kubelet of one era."""

    simulated = True

    def __init__(self, root: Path, era: str, **settings: Any) -> None:
        """Start it; ``settings`` are those of ``SimulatedKubelet``."""
        self.name = f"simulated-{era}"
        self.release = era
        self._told = 0
        self.kubelet = SimulatedKubelet(root, era=era, **settings)
        self.kubelet.start()
        self.plugin_dir = self.kubelet.plugin_dir
        self.pod_resources = self.kubelet.pod_resources

    def close(self) -> None:
        """End it."""
        self.kubelet.stop()

    def counts(self, resource: str = GPU) -> Counts:
        """Healthy and all devices of a resource."""
        return Counts(
            allocatable=self.kubelet.allocatable().get(resource),
            capacity=self.kubelet.capacity().get(resource),
        )

    def on_node(self, resource: str = GPU) -> Counts:
        """The same as the Node object would carry it."""
        node = self.kubelet.node()
        return Counts(
            allocatable=node.allocatable.get(resource), capacity=node.capacity.get(resource)
        )

    def wait(
        self,
        *,
        allocatable: int | None = None,
        capacity: int | None = None,
        resource: str = GPU,
        seconds: float = 10,
    ) -> Reached:
        """Wait until the counts are these; -1 means that the resource is not there."""

        def reached() -> bool:
            counts = self.counts(resource)
            return _is(counts.allocatable, allocatable) and _is(counts.capacity, capacity)

        assert self.kubelet.wait(reached, seconds), (
            f"{self.name}: {resource} is {self.counts(resource)} after {seconds} s, "
            f"not {allocatable}/{capacity}"
        )
        return Reached(at=time.monotonic())

    def devices(self, resource: str = GPU) -> frozenset[str]:
        """The ids it counts as healthy."""
        health = self.kubelet.devices(resource)
        return frozenset(id_ for id_, word in health.items() if word == "Healthy")

    def admit(self, name: str, *containers: Container) -> Admission:
        """Admit a pod of that name."""
        try:
            return self.kubelet.admit(Pod(name=name, containers=containers))
        except KubeletCrashedError as error:
            raise KubeletDiedError(str(error)) from error

    def admit_beside(self, name: str, *containers: Container) -> Callable[[float], Admission]:
        """Begin to admit a pod and return at once; call the result to wait so many seconds."""
        ended: queue.Queue[Admission | KubeletDiedError] = queue.Queue()

        def admit() -> None:
            try:
                ended.put(self.admit(name, *containers))
            except KubeletDiedError as error:
                ended.put(error)

        threading.Thread(target=admit, name=f"admit-{name}", daemon=True).start()

        def wait(seconds: float) -> Admission:
            end = ended.get(timeout=seconds)
            if isinstance(end, KubeletDiedError):
                raise end
            return end

        return wait

    def held(self) -> dict[str, Devices]:
        """Device ids by pod, container and resource."""
        return self.kubelet.pods()

    def start_container(self, pod: str, container: str = "main") -> ContainerEdits:
        """What the runtime is told when a container starts (again)."""
        return self.kubelet.start_container(pod, container)

    def exit_container(self, pod: str, container: str = "main") -> None:
        """Let a container end."""
        self.kubelet.exit_container(pod, container)

    def remove(self, pod: str) -> None:
        """End a pod."""
        self.kubelet.remove(pod)

    def health(self, pod: str) -> Health:
        """What the pod's status says of its devices."""
        return self.kubelet.health(pod)

    def refreshed(self, seconds: float = 0.0) -> set[str]:
        """Pods whose status is to be written again since this was asked last."""
        self.kubelet.wait(lambda: len(self._refreshed()) > self._told, seconds)
        pods = self._refreshed()
        self._told, told = len(pods), self._told
        return set(pods[told:])

    def _refreshed(self) -> list[str]:
        changes = self.kubelet.changes
        return [each.pod for each in changes if each.kind is ChangeKind.POD_STATUS]

    def restart(
        self,
        *,
        down: float = 0.0,
        reboot: bool = False,
        readmit: bool = True,
        gone: tuple[str, ...] = (),
    ) -> list[Admission]:
        """Die, stay away, come back; admit the pods again unless told not to."""
        self.kubelet.stop()
        for pod in gone:
            self.kubelet.remove(pod)
        return self.kubelet.restart(down=down, reboot=reboot, readmit=readmit)

    def readmit(self) -> list[Admission]:
        """Admit the pods again, as after a start."""
        try:
            return self.kubelet.readmit()
        except KubeletCrashedError as error:
            raise KubeletDiedError(str(error)) from error

    def alive(self) -> bool:
        """Whether it lives."""
        return self.kubelet.running


def _is(found: int | None, wanted: int | None) -> bool:
    return wanted is None or found == wanted or (wanted == -1 and found is None)
