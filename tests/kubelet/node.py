"""What a scenario may ask of a kubelet, real or simulated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deviceplugin.model import ContainerEdits
from deviceplugin.simulation.kubelet import Admission, Container
from deviceplugin.simulation.kubelet.pods import Devices

GPU = "nvidia.com/gpu"


Health = Mapping[str, Mapping[str, Mapping[str, str]]]
"""``Healthy`` or ``Unhealthy`` by container, resource and id."""


class KubeletDiedError(Exception):
    """The kubelet's process ended of something a plugin did; the text says of what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Of one resource; None where the kubelet has no such key."""

    allocatable: int | None
    capacity: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """When a wanted count was seen.

    Attributes:
        at: seconds of CLOCK_MONOTONIC.

    """

    at: float


class Kubelet(Protocol):
    """A started kubelet in a folder of its own.

    Attributes:
        name: as in the reports: "1.37", "simulated-1.36".
        release: "1.34", "1.36" or "1.37"; the simulated "1.36" stands for all before 1.37.
        simulated: whether it is ours.
        plugin_dir: where plugins meet it, as seen from here.
        pod_resources: its PodResources socket, as seen from here.

    """

    name: str
    release: str
    simulated: bool
    plugin_dir: Path
    pod_resources: Path

    def counts(self, resource: str = GPU) -> Counts:
        """Healthy and all devices of a resource."""
        ...

    def on_node(self, resource: str = GPU) -> Counts:
        """The same as the Node object would carry it: dropped resources stay with 0."""
        ...

    def wait(
        self,
        *,
        allocatable: int | None = None,
        capacity: int | None = None,
        resource: str = GPU,
        seconds: float = 10,
    ) -> Reached:
        """Wait until the counts are these; -1 means that the resource is not there.

        Raises:
            AssertionError: they are still others after so many seconds.

        """
        ...

    def devices(self, resource: str = GPU) -> frozenset[str]:
        """The ids it counts as healthy."""
        ...

    def admit(self, name: str, *containers: Container) -> Admission:
        """Admit a pod of that name.

        Raises:
            KubeletDiedError: the kubelet did not survive it.

        """
        ...

    def admit_beside(self, name: str, *containers: Container) -> Callable[[float], Admission]:
        """Begin to admit a pod and return at once; call the result to wait so many seconds."""
        ...

    def held(self) -> dict[str, Devices]:
        """Device ids by pod, container and resource."""
        ...

    def start_container(self, pod: str, container: str = "main") -> ContainerEdits:
        """What the runtime is told when a container starts (again).

        Raises:
            ContainerStartError: it cannot be started.

        """
        ...

    def exit_container(self, pod: str, container: str = "main") -> None:
        """Let a container end: it does not run at the next restart of the kubelet."""
        ...

    def remove(self, pod: str) -> None:
        """End a pod."""
        ...

    def health(self, pod: str) -> Health:
        """What the pod's status says of its devices."""
        ...

    def refreshed(self, seconds: float = 0.0) -> set[str]:
        """Pods whose status the kubelet set out to write again since this was asked last.

        Waits for the first so many seconds at most.
        """
        ...

    def restart(
        self,
        *,
        down: float = 0.0,
        reboot: bool = False,
        readmit: bool = True,
        gone: tuple[str, ...] = (),
    ) -> list[Admission]:
        """Die, stay away ``down`` seconds, come back; admit the pods again unless told not to.

        Pods in ``gone`` were deleted meanwhile; after a ``reboot`` no container runs.
        """
        ...

    def readmit(self) -> list[Admission]:
        """Admit the pods again, as after a start.

        Raises:
            KubeletDiedError: the kubelet did not survive it.

        """
        ...

    def alive(self) -> bool:
        """Whether its process lives and answers."""
        ...


Boot = Callable[..., Kubelet]
"""Starts the kubelet with settings of one's own."""


def asking(
    count: int,
    resource: str = GPU,
    *,
    name: str = "main",
    init: bool = False,
    restartable: bool = False,
) -> Container:
    """A container that asks for so many of one resource."""
    return Container(name=name, limits={resource: count}, init=init, restartable=restartable)
