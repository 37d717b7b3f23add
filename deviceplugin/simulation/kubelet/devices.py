"""What plugins listed, counted as the kubelet counts."""

from collections.abc import Iterable
from typing import Protocol

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


class ListedNode(Protocol):
    """A NUMA node of a device in a list."""

    ID: int


class ListedTopology(Protocol):
    """The topology of a device in a list."""

    @property
    def nodes(self) -> Iterable[ListedNode]:
        """NUMA nodes."""


class ListedDevice(Protocol):
    """A device in a list, as protobuf reads it."""

    ID: str
    health: str

    @property
    def topology(self) -> ListedTopology:
        """Empty where the plugin gave none."""


class DeviceLists:
    """Ids by resource.

    A resource is in ``healthy`` and ``unhealthy`` only from the moment the kubelet
    has something to count for it: a key that is there with nothing in it means 0,
    a key that is missing means "never heard of".
    """

    def __init__(self) -> None:
        self.healthy: dict[str, set[str]] = {}
        self.unhealthy: dict[str, set[str]] = {}
        self.nodes: dict[str, dict[str, tuple[int, ...]]] = {}
        """Every id of the last list, with its NUMA nodes; outlives the stream."""
        self.words: dict[str, dict[str, str]] = {}
        """The health of every id of the last list; outlives the stream."""

    def restore(self, resource: str) -> None:
        """Know a resource from the checkpoint, with nothing in it."""
        self.healthy[resource] = set()
        self.unhealthy[resource] = set()

    def replace(self, resource: str, devices: Iterable[ListedDevice]) -> None:
        """Take a list: it replaces the one before, whoever sent that.

        An id that is listed twice with different health is in both sets, and so
        counted twice; any text other than ``Healthy`` is unhealthy.
        """
        listed = tuple(devices)
        self.words[resource] = {each.ID: each.health for each in listed}
        self.healthy[resource] = {each.ID for each in listed if each.health == HEALTHY}
        self.unhealthy[resource] = {each.ID for each in listed if each.health != HEALTHY}
        self.nodes[resource] = {
            each.ID: tuple(node.ID for node in each.topology.nodes) for each in listed
        }

    def changed(self, resource: str, devices: Iterable[ListedDevice]) -> list[str]:
        """Ids that a new list shows with another health, or that the last one did not have."""
        before = self.words.get(resource, {})
        return [each.ID for each in devices if before.get(each.ID) != each.health]

    def status(self, resource: str, id_: str) -> str:
        """Health as pods' status tells it: an id that is not listed counts as healthy."""
        word = self.words.get(resource, {}).get(id_, HEALTHY)
        return HEALTHY if word == HEALTHY else UNHEALTHY

    def lost(self, resource: str) -> None:
        """Turn every device unhealthy: nobody speaks for them any more."""
        unhealthy = self.unhealthy.setdefault(resource, set())
        if resource in self.healthy:
            unhealthy |= self.healthy[resource]
            self.healthy[resource] = set()

    def drop(self, resource: str) -> None:
        """Forget the counts of a resource whose plugin stayed away for too long."""
        self.healthy.pop(resource, None)
        self.unhealthy.pop(resource, None)

    def resources(self) -> set[str]:
        """Every resource that is counted."""
        return self.healthy.keys() | self.unhealthy.keys()

    def aligned(self, resource: str) -> bool:
        """Whether any device of the resource has a NUMA node."""
        return any(self.nodes.get(resource, {}).values())
