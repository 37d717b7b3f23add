"""Frozen values that every layer speaks of.

Times are seconds of ``CLOCK_MONOTONIC`` everywhere: it runs since the boot and
is the same for all processes, so together with the boot id it survives a
restart of the daemon and no clock change can bend it.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType, Protocol, TypeVar

ResourceName = NewType("ResourceName", str)
"""What pods ask for, vendor domain included: ``nvidia.com/gpu``."""

DeviceId = NewType("DeviceId", str)
"""Stable over restart and reboot: a GPU UUID, a PCI address."""

UnitId = NewType("UnitId", str)
"""What the kubelet counts: a device id, or ``<device>::<n>`` for a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A physical device, or a partition of one, as its driver shows it.

    Attributes:
        id: stable id.
        resource: the resource it counts under while no rule renames it.
        index: the driver's own enumeration order; may change at a reboot.
        name: product name, as the driver gives it.
        pci_address: ``dddd:bb:dd.f`` in lower case; None where there is none.
        numa_node: a node that exists and has CPUs; None for unknown (never -1).
        parent: the physical device this is a partition of. Faults of the parent are its own.
        layout: how the physical device is divided now, as its driver calls it (``cpx_nps4``);
            "" for one that cannot be. A known device whose physical device is found under
            another layout is not missing: it is no more.
        nodes: device nodes a container needs, control nodes included, as paths
            in the container; only those that exist.
        cdi_names: fully qualified CDI names that resolve to this device now.
        attributes: further facts, for people and for the vendor's own delivery.

    """

    id: DeviceId
    resource: ResourceName
    index: int
    name: str = ""
    pci_address: str | None = None
    numa_node: int | None = None
    parent: DeviceId | None = None
    layout: str = ""
    nodes: tuple[str, ...] = ()
    cdi_names: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def physical(self) -> DeviceId:
        """The device that this is, or is a part of."""
        return self.parent or self.id


UNKNOWN_LINK = 1_000_000
"""Weight of a pair that nothing is known of: the worst there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """How near devices are to each other; a lower weight is nearer.

    Weights compare within one vendor only. ``weights`` has each pair once, the smaller id first.
    """

    weights: Mapping[tuple[DeviceId, DeviceId], int] = field(default_factory=dict)

    def weight(self, one: DeviceId, other: DeviceId) -> int:
        """Weight between two devices, in either order; ``UNKNOWN_LINK`` where none is known."""
        pair = (one, other) if one < other else (other, one)
        return self.weights.get(pair, UNKNOWN_LINK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """What the devices of a node count as under the present config.

    Attributes:
        devices: the devices asked about, ``resource`` replaced where the config says so.
        held_back: why a device has no healthy unit although nothing is wrong with it.

    """

    devices: tuple[Device, ...]
    held_back: Mapping[DeviceId, str] = field(default_factory=dict)


class Action(enum.StrEnum):
    """What a symptom does to its device, and what takes the fault back."""

    IGNORE = "ignore"
    EVENT = "event"  # logged and counted, the device stays Healthy
    RECOVER = "recover"  # Unhealthy until it has been seen good for the hold-down
    RESET = "reset"  # Unhealthy until the device was reset
    REBOOT = "reboot"  # Unhealthy until the node rebooted


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing wrong with one device.

    Attributes:
        kind: bounded vocabulary, fit for a metric label: ``xid-79``, ``lost``.
        detail: one line for people.
        since: first seen.
        last: last seen.
        action: what clears it.

    """

    device: DeviceId
    kind: str
    detail: str
    since: float
    last: float
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One line of a ListAndWatch answer; ``reason`` says why it is not healthy."""

    id: UnitId
    device: DeviceId
    healthy: bool = True
    reason: str = ""
    numa_node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A bind mount into the container."""

    container_path: str
    host_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNode:
    """A device node in the container; no ``m``: containers need not make nodes."""

    container_path: str
    host_path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEdits:
    """What an Allocate answer adds to a container."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi_names: tuple[str, ...] = ()

    def __or__(self, other: "ContainerEdits") -> "ContainerEdits":
        """Merge as the kubelet does: the first value of a key or path wins, nothing twice."""
        return ContainerEdits(
            env={**other.env, **self.env},
            mounts=_first_by_path(self.mounts + other.mounts),
            device_nodes=_first_by_path(self.device_nodes + other.device_nodes),
            annotations={**other.annotations, **self.annotations},
            cdi_names=tuple(dict.fromkeys(self.cdi_names + other.cdi_names)),
        )


E = TypeVar("E", Mount, DeviceNode)


def _first_by_path(edits: tuple[E, ...]) -> tuple[E, ...]:
    return tuple({edit.container_path: edit for edit in reversed(edits)}.values())[::-1]


class Delivery(Protocol):
    """How a vendor hands its devices to a container under the present config.

    Implementations are frozen dataclasses, so that equal deliveries compare equal.
    """

    @property
    def unmet(self) -> str:
        """Why this node cannot deliver now (a CDI spec is missing); "" when it can."""

    def edits(self, devices: Sequence[Device]) -> ContainerEdits:
        """Edits for these devices (each once, sorted by index). Pure, no I/O."""


class Policy(enum.StrEnum):
    """Where the next share goes among devices with free shares."""

    DISTRIBUTED = "distributed"  # the device with the fewest shares taken
    PACKED = "packed"  # the device with the most


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRules:
    """The user's rules on a resource: the one list of reasons to refuse listed ids."""

    policy: Policy = Policy.DISTRIBUTED
    fail_requests_greater_than_one: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceView:
    """All that the RPCs of one resource need, in one immutable value.

    Attributes:
        units: sorted by device index, then share number; ids are unique.
        devices: the devices behind the units that are present on this node.
        links: how near the vendor's devices are to each other.
        unit_by_id: index over ``units``.
        ids_by_device: unit ids of each device, in the order of ``units``.
        unhealthy: ids of the units that are not healthy.

    """

    name: ResourceName
    units: tuple[Unit, ...]
    devices: Mapping[DeviceId, Device]
    delivery: Delivery
    rules: AllocationRules = AllocationRules()
    links: Links = field(default_factory=Links)
    unit_by_id: Mapping[UnitId, Unit] = field(init=False, compare=False, repr=False)
    ids_by_device: Mapping[DeviceId, tuple[UnitId, ...]] = field(
        init=False, compare=False, repr=False
    )
    unhealthy: frozenset[UnitId] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit_by_id", {unit.id: unit for unit in self.units})
        object.__setattr__(self, "ids_by_device", _ids_by_device(self.units))
        unhealthy = frozenset(unit.id for unit in self.units if not unit.healthy)
        object.__setattr__(self, "unhealthy", unhealthy)


def _ids_by_device(units: tuple[Unit, ...]) -> dict[DeviceId, tuple[UnitId, ...]]:
    ids: dict[DeviceId, list[UnitId]] = {}
    for unit in units:
        ids.setdefault(unit.device, []).append(unit.id)
    return {device: tuple(listed) for device, listed in ids.items()}


Views = Mapping[ResourceName, ResourceView]


class BackendState(enum.StrEnum):
    """What a vendor's driver is to us now; every one of them is a normal state."""

    STARTING = "starting"
    NO_LIBRARY = "no-library"
    NO_DRIVER = "driver-not-loaded"
    NO_DEVICES = "no-devices"
    FEWER_DEVICES = "waiting-for-devices"  # the PCI bus shows more than the driver
    READY = "ready"
    DRIVER_MISMATCH = "driver-mismatch"
    DRIVER_HUNG = "driver-hung"
    MONITOR_LOST = "monitor-lost"  # devices keep their last verdict
