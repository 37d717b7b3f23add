"""A small node: an inventory and a listing that time and events move on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deviceplugin import events as ev
from deviceplugin.config.rules import Config, HealthPolicy, ShareRule
from deviceplugin.inventory import Inventory, apply
from deviceplugin.model import (
    AllocationRules,
    ContainerEdits,
    Device,
    DeviceId,
    ResourceName,
    UnitId,
    Views,
)
from deviceplugin.sharing.engine import NOTHING, Outcome, advance
from deviceplugin.sharing.vendor import Arrange, Vendor, as_found

GPU = ResourceName("nvidia.com/gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """A delivery that remembers what it was made for."""

    devices: tuple[DeviceId, ...] = ()
    unmet: str = ""

    def edits(self, devices: Sequence[Device]) -> ContainerEdits:
        """Name the devices."""
        return ContainerEdits(env={"DEVICES": ",".join(device.id for device in devices)})


def _device(index: int, **changes: Any) -> Device:
    whole = Device(
        id=DeviceId(f"GPU-{index}"),
        resource=GPU,
        index=index,
        name="NVIDIA L4",
        pci_address=f"0000:{index:02x}:00.0",
        numa_node=index // 4,
    )
    return replace(whole, **changes)


@dataclass(slots=True, kw_only=True)
class Node:
    """What the loop does, by hand: fold an event, make the next list."""

    devices: tuple[Device, ...] = ()
    inventory: Inventory = field(default_factory=lambda: Inventory(boot="boot-1"))
    now: float = 1000.0
    unmet: str = ""
    arrange: Arrange = as_found
    outcome: Outcome = field(default_factory=lambda: Outcome(listing=NOTHING))
    pods: dict[str, set[str]] = field(default_factory=dict)

    def fold(self, *events: ev.Event) -> "Node":
        """Fold events and plan once."""
        for event in events:
            self.inventory = apply(self.inventory, event)
        return self.plan()

    def plan(self) -> "Node":
        """Make the next list."""
        self.outcome = advance(self.inventory, self.outcome.listing, self.now, self.vendor)
        return self

    @property
    def vendor(self) -> Vendor:
        """How these devices are handed out and arranged."""
        return Vendor(deliver=self._deliver, arrange=self.arrange)

    def _deliver(
        self, _config: Config, _resource: ResourceName, devices: Sequence[Device]
    ) -> Handed:
        return Handed(devices=tuple(device.id for device in devices), unmet=self.unmet)

    def tick(self, seconds: float) -> "Node":
        """Let time pass and plan."""
        self.now += seconds
        return self.plan()

    def scan(self, *devices: Device, bus: Iterable[str] | None = None) -> "Node":
        """Find these devices; the PCI bus shows the same unless told otherwise."""
        self.devices = devices
        shown = {each.pci_address for each in devices if each.pci_address}
        scan = ev.Scan(devices=devices, bus=frozenset(shown if bus is None else bus))
        return self.fold(ev.Scanned(scan=scan, seconds=0.1, at=self.now))

    def config(
        self,
        *rules: ShareRule,
        health: HealthPolicy | None = None,
        allocation: AllocationRules | None = None,
    ) -> "Node":
        """Put a config in force."""
        config = Config(
            source="nvidia.yaml",
            rules=rules,
            health=health or HealthPolicy(),
            allocation=allocation or AllocationRules(),
        )
        return self.fold(ev.ConfigAccepted(config=config, text="text", at=self.now))

    def share(self, replicas: int, rename: str | None = None, **changes: Any) -> "Node":
        """Put a config of one rule over all GPUs in force."""
        name = ResourceName(rename) if rename else None
        rule = ShareRule(
            resource=GPU, replicas=replicas, rename=name, where="nvidia.yaml:7", **changes
        )
        return self.config(rule)

    def allocate(self, unit: str, resource: str = GPU) -> "Node":
        """A pod gets a unit; PodResources will list it from now on."""
        self.pods.setdefault(resource, set()).add(unit)
        return self.fold(
            ev.Allocated(
                resource=ResourceName(resource),
                units=(UnitId(unit),),
                refused="",
                seconds=0.001,
                at=self.now,
            )
        )

    def end(self, unit: str, resource: str = GPU) -> "Node":
        """The pod ends; nobody tells us."""
        self.pods[resource].discard(unit)
        return self

    def answer(self, times: int = 1, *, every: float = 1.0) -> "Node":
        """PodResources lists what pods hold, each time asked for a moment after the last."""
        for _ in range(times):
            self.now += every
            begun = self.now
            self.now += 0.001
            self.fold(self.answered(begun))
        return self

    def answered(self, begun: float) -> ev.HoldersAnswered:
        """The answer that a question asked at ``begun`` would get now."""
        held = {
            ResourceName(name): frozenset(map(UnitId, units)) for name, units in self.pods.items()
        }
        return ev.HoldersAnswered(begun=begun, held=held, allocatable={}, at=self.now)

    def silent(self) -> "Node":
        """PodResources does not answer."""
        return self.fold(ev.HoldersUnavailable(why="no socket", at=self.now))

    @property
    def views(self) -> Views:
        """What is published."""
        return self.outcome.views

    def listed(self, resource: str = GPU) -> list[str]:
        """Ids of a resource, in the order of the list."""
        view = self.views.get(ResourceName(resource))
        return [unit.id for unit in view.units] if view else []

    def healthy(self, resource: str = GPU) -> list[str]:
        """Ids listed Healthy."""
        view = self.views.get(ResourceName(resource))
        return [unit.id for unit in view.units if unit.healthy] if view else []

    def reasons(self, resource: str = GPU) -> Mapping[str, str]:
        """Why each unhealthy unit is so."""
        view = self.views[ResourceName(resource)]
        return {unit.id: unit.reason for unit in view.units if not unit.healthy}


def _node(*, gpus: int = 1, **changes: Any) -> Node:
    node = Node(**changes)
    node.scan(*(_device(index) for index in range(gpus)))
    return node.config()


@pytest.fixture(scope="session")
def device() -> Callable[..., Device]:
    """Make a GPU by index; keywords change what it has."""
    return _device


@pytest.fixture(scope="session")
def new_node() -> Callable[..., Node]:
    """Make a node with ``gpus`` whole GPUs under the default config."""
    return _node


@pytest.fixture(scope="session")
def bare_node() -> Callable[..., Node]:
    """Make a node on which nothing happened yet."""
    return Node


@pytest.fixture
def node() -> Node:
    """A node with one whole GPU whose holders are known."""
    return _node().answer()
