"""Frozen values about pods: what they ask for, what they were given."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from deviceplugin.model import ContainerEdits

Devices = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Device ids, sorted, by container and resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of a pod.

    Attributes:
        limits: how many of each resource it asks for.
        init: it runs to its end before the others start.
        restartable: an init container that goes on running (a sidecar).

    """

    name: str = "main"
    limits: Mapping[str, int] = field(default_factory=dict)
    init: bool = False
    restartable: bool = False

    @property
    def ends_early(self) -> bool:
        """A plain init container: its devices are lent to those that come after it."""
        return self.init and not self.restartable


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod as its owner writes it; names are unique among the pods of a node."""

    name: str
    containers: tuple[Container, ...] = ()
    namespace: str = "default"

    @classmethod
    def asking(cls, name: str, **limits: int) -> "Pod":
        """A pod of one container: ``Pod.asking("a", **{"nvidia.com/gpu": 1})``."""
        return cls(name=name, containers=(Container(limits=limits),))

    def in_start_order(self) -> list[Container]:
        """Init containers first, as they are admitted and started."""
        return sorted(self.containers, key=lambda container: not container.init)

    def container(self, name: str) -> Container:
        """The container of that name.

        Raises:
            KeyError: there is none.

        """
        return {container.name: container for container in self.containers}[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """How the admission of a pod ended.

    Attributes:
        reason: "" when admitted, else the word in the pod's status, such as
            ``UnexpectedAdmissionError`` or ``OutOfnvidia.com/gpu``.
        message: the sentence beside it.
        devices: what each container was given.
        edits: what each container gets from the plugins' answers, merged.
        seconds: how long it took, the plugins' answers included.

    """

    pod: Pod
    admitted: bool
    reason: str = ""
    message: str = ""
    devices: Devices = field(default_factory=dict)
    edits: Mapping[str, ContainerEdits] = field(default_factory=dict)
    seconds: float = 0.0
