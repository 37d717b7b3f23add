"""Plans whose list would not fit one message are not followed.

The kubelet ends the stream of a list above its limit, and the node is left with nothing.
Units that are only being withdrawn count too: they are in the message.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from deviceplugin.model import Device, DeviceId, ResourceName
from deviceplugin.sharing.ids import WHOLE
from deviceplugin.sharing.listing import Listing
from deviceplugin.sharing.plan import Plan, Target, Unmet, unshared
from deviceplugin.sharing.size import LIMIT, most_bytes, most_bytes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A resource's list: units asked for, units that leave, bytes when all are Unhealthy."""

    units: int = 0
    leaving: int = 0
    size: int = 0

    def __add__(self, other: "Weight") -> "Weight":
        return Weight(
            units=self.units + other.units,
            leaving=self.leaving + other.leaving,
            size=self.size + other.size,
        )


def fit(plan: Plan, listing: Listing) -> Plan:
    """The plan, with resources that do not fit at their last targets, at first unshared. Pure."""
    devices = plan.devices
    targets = dict(plan.targets)
    unmet: dict[Unmet, None] = {}
    # Falling back may load another name, so look again; each name can fall back once.
    for _ in plan.resources:
        heavy = _heavy(targets, listing, devices)
        if not heavy:
            break
        for device, target in list(targets.items()):
            if target.resource in heavy:
                targets[device] = listing.targets.get(device) or unshared(devices[device])
                unmet[_unmet(plan.targets[device], heavy[target.resource])] = None
    if not unmet:
        return plan
    return replace(plan, targets=targets, unmet=(*plan.unmet, *unmet))


def _heavy(
    targets: Mapping[DeviceId, Target], listing: Listing, devices: Mapping[DeviceId, Device]
) -> dict[ResourceName, Weight]:
    weights: dict[ResourceName, Weight] = {}
    for name, row in listing.shelves.items():
        for each, shelf in row.items():
            device = devices.get(each) or Device(id=each, resource=name, index=0)
            weight = _leaving(device, shelf, _replicas(targets.get(each), name))
            weights[name] = weights.get(name, Weight()) + weight
    for each, target in targets.items():
        size = most_bytes(devices[each], target.replicas)
        weight = Weight(units=target.replicas, size=size)
        weights[target.resource] = weights.get(target.resource, Weight()) + weight
    return {name: weight for name, weight in weights.items() if weight.size > LIMIT}


def _replicas(target: Target | None, name: ResourceName) -> int:
    return target.replicas if target and target.resource == name else 0


def _leaving(device: Device, slots: Iterable[int], replicas: int) -> Weight:
    asked = {WHOLE} if replicas == 1 else range(replicas)
    extra = [slot for slot in slots if slot not in asked]
    return Weight(leaving=len(extra), size=sum(most_bytes_of(device, slot) for slot in extra))


def _unmet(target: Target, weight: Weight) -> Unmet:
    total = weight.units + weight.leaving
    return Unmet(
        where=target.where,
        resource=target.resource,
        reason=(
            f"its list would hold {total:,} units, {weight.leaving:,} of them being withdrawn,"
            f" and take {weight.size:,} bytes; the kubelet accepts {LIMIT:,} in one message,"
            f" which is about {LIMIT * total // weight.size:,} such units: write fewer replicas."
            " Until it fits the last plan that did stays in force"
        ),
    )
