"""What the config asks of this node: for each device a resource name and a number of units.

A config is valid or not by its text alone. What only this node can tell, a device that
is not there, makes an entry unmet: the rest is served, and it heals by itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from deviceplugin.config.rules import Config, ShareRule
from deviceplugin.inventory import Inventory
from deviceplugin.model import AllocationRules, Arrangement, Device, DeviceId, ResourceName
from deviceplugin.sharing.select import select
from deviceplugin.sharing.vendor import Arrange, as_found

_SHOWN = 3
"""Devices named in one line; the rest are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What one device is to be listed as; ``where`` is the entry that says so, "" for none."""

    resource: ResourceName
    replicas: int = 1
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Unmet:
    """Something asked for that this node cannot give now.

    Attributes:
        where: the entry of the config; "" where none asks for it.
        resource: what it concerns.
        reason: one line for people.

    """

    where: str
    resource: str
    reason: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.where, self.resource, self.reason)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What each known device is to be, in the order of their indexes.

    Attributes:
        devices: by id, ``resource`` as the config arranges it.
        held_back: why a device has no healthy unit although nothing is wrong with it.

    """

    targets: Mapping[DeviceId, Target] = field(default_factory=dict)
    devices: Mapping[DeviceId, Device] = field(default_factory=dict)
    held_back: Mapping[DeviceId, str] = field(default_factory=dict)
    unmet: tuple[Unmet, ...] = ()
    allocation: AllocationRules = field(default_factory=AllocationRules)

    @property
    def resources(self) -> tuple[ResourceName, ...]:
        """Names that some device is to be listed under."""
        return tuple(dict.fromkeys(target.resource for target in self.targets.values()))

    def rules(self, resource: ResourceName) -> AllocationRules:
        """The user's rules on a resource; those on shares count only where shares are."""
        if any(t.resource == resource and t.replicas > 1 for t in self.targets.values()):
            return self.allocation
        return replace(self.allocation, fail_requests_greater_than_one=False)


def plan(inventory: Inventory, arrange: Arrange = as_found) -> Plan:
    """Apply the config's entries to the devices known here. Pure."""
    config = inventory.config or Config()
    arranged = arrange(config, tuple(inventory.all_devices().values()))
    devices = {device.id: device for device in arranged.devices}
    targets = {each: unshared(device) for each, device in devices.items()}
    unmet = list(_held_back(arranged))
    for rule in config.rules:
        unmet += _apply(rule, devices.values(), targets)
    return Plan(
        targets=targets,
        devices=devices,
        held_back=arranged.held_back,
        # Before the first scan nothing is known to be absent.
        unmet=tuple(unmet) if inventory.scanned else (),
        allocation=config.allocation,
    )


def _held_back(arranged: Arrangement) -> Iterator[Unmet]:
    groups: dict[tuple[ResourceName, str], list[DeviceId]] = {}
    for device in arranged.devices:
        if why := arranged.held_back.get(device.id):
            groups.setdefault((device.resource, why), []).append(device.id)
    for (resource, why), ids in groups.items():
        reason = f"{shortened(ids)} held back: {why}"
        yield Unmet(where="", resource=resource, reason=reason)


def shortened(ids: Sequence[str]) -> str:
    """Name the first few devices and count the rest, for one line."""
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"{', '.join(ids[:_SHOWN])}{more}"


def unshared(device: Device) -> Target:
    """A device as it is served when no entry of the config speaks of it."""
    return Target(resource=device.resource)


def _apply(
    rule: ShareRule, devices: Iterable[Device], targets: dict[DeviceId, Target]
) -> list[Unmet]:
    candidates = [device for device in devices if _is_of(rule, device)]
    asked = rule.resource or "every resource"

    def unmet(reason: str) -> Unmet:
        return Unmet(where=rule.where, resource=asked, reason=reason)

    if not candidates:
        there = ", ".join(dict.fromkeys(device.resource for device in devices))
        here = f"; here: {there}" if there else ""
        return [unmet(f"no device of {asked} is on this node{here}")]
    selection = select(rule.devices, candidates)
    taken = [device for device in selection.devices if targets[device.id].where]
    for device in selection.devices:
        if not targets[device.id].where:
            targets[device.id] = _target(rule, device)
    return [*map(unmet, selection.absent), *_overlaps(taken, targets, unmet)]


def _is_of(rule: ShareRule, device: Device) -> bool:
    return rule.resource in (None, device.resource)


def _target(rule: ShareRule, device: Device) -> Target:
    name = rule.rename or ResourceName(device.resource + rule.rename_suffix)
    return Target(resource=name, replicas=rule.replicas, where=rule.where or "config")


def _overlaps(
    taken: Iterable[Device], targets: Mapping[DeviceId, Target], unmet: Callable[[str], Unmet]
) -> list[Unmet]:
    first: dict[str, list[DeviceId]] = {}
    for device in taken:
        first.setdefault(targets[device.id].where, []).append(device.id)
    return [
        unmet(f"{', '.join(ids)} is shared by {where} already, which comes first")
        for where, ids in first.items()
    ]
