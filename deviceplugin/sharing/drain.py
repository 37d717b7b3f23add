"""From one list to the next: toward the plan, without taking a unit from anybody.

Per device, since nothing of one device depends on another. The rules in order of weight:
a held unit stays listed; a unit is Healthy under one name at most; Healthy units never
exceed the target; the number of Healthy units never dips on the way to a larger target.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from deviceplugin.inventory import Inventory
from deviceplugin.model import DeviceId, ResourceName
from deviceplugin.sharing.claims import Held, by_device
from deviceplugin.sharing.fade import Moment, Row, fade
from deviceplugin.sharing.listing import WANTED, Listing, Mark, Shelf
from deviceplugin.sharing.plan import Plan, Target, Unmet, shortened
from deviceplugin.sharing.survivors import survivors

LEFT_OUT = "the config leaves it out"
UNKNOWN = "no device of this node has this id"
DIVIDED = "its GPU is divided otherwise now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One device at one moment.

    Attributes:
        target: None for a device that this node does not know.
        found: False for one that is known and missing.
        replaced: it is no more, because its physical device is divided otherwise.
        shelves: what is listed of it.
        held: what pods hold of it, names included under which we list nothing.
        former: what is listed or held of the devices that its physical device was before.

    """

    device: DeviceId
    target: Target | None
    found: bool
    shelves: Mapping[ResourceName, Shelf]
    held: Held
    moment: Moment
    former: tuple[Row, ...] = ()
    replaced: bool = False

    def row(self, name: ResourceName) -> Row:
        """Its units under one name."""
        return Row(
            name=name,
            device=self.device,
            shelf=self.shelves.get(name, {}),
            held=self.held.get(name, frozenset()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The next shelves of a device, and why its new name has to wait, if it has to."""

    shelves: Mapping[ResourceName, Shelf]
    waits: str = ""


def step(listing: Listing, plan: Plan, inventory: Inventory, now: float) -> Listing:
    """The next list. Pure, and a fixed point when nothing changes but ``now``."""
    ours = dict.fromkeys([*listing.shelves, *plan.resources])
    # A name once listed stays, so that its stream stays.
    shelves: dict[ResourceName, dict[DeviceId, Shelf]] = {name: {} for name in listing.shelves}
    waiting: dict[tuple[Target, str], list[DeviceId]] = {}
    for case in _cases(listing, plan, inventory, now):
        settled = settle(case) if case.found else _frozen(case)
        for name, shelf in settled.shelves.items():
            if shelf and name in ours:
                shelves.setdefault(name, {})[case.device] = shelf
        if settled.waits and case.target:
            waiting.setdefault((case.target, settled.waits), []).append(case.device)
    reasons = tuple(_waiting(target, why, each) for (target, why), each in waiting.items())
    return Listing(shelves=shelves, targets=plan.targets, waiting=reasons)


def _cases(listing: Listing, plan: Plan, inventory: Inventory, now: float) -> Iterator[Case]:
    moment = Moment(
        now=now, holders=inventory.holders, withdrawn_hold=inventory.bounds.withdrawn_hold
    )
    # Pods of a predecessor, or of a state that is lost, hold devices under names that we do
    # not list. An id names its device: under any name of our domain that device is taken.
    names = dict.fromkeys([*listing.shelves, *plan.resources, *_defaults(inventory)])
    ours = {**inventory.known, **inventory.former}
    held = by_device(inventory.holders.held(now), names, ours)
    former = _former(listing, held, inventory, moment)
    for device in {**plan.targets, **listing.devices(), **held}:
        target = plan.targets.get(device)
        yield Case(
            device=device,
            target=target,
            found=target is None or device in inventory.devices,
            shelves=listing.of_device(device),
            held=held.get(device, {}),
            moment=moment,
            former=former.get(inventory.known[device].device.physical, ())
            if device in inventory.known
            else (),
            replaced=device in inventory.former,
        )


def _former(
    listing: Listing, held: Mapping[DeviceId, Held], inventory: Inventory, moment: Moment
) -> dict[DeviceId, tuple[Row, ...]]:
    """By physical device: the units of what it was before, as long as they are listed or held."""
    rows: dict[DeviceId, tuple[Row, ...]] = {}
    for device, physical in inventory.former.items():
        shelves, claims = listing.of_device(device), held.get(device, {})
        for name in dict.fromkeys([*shelves, *claims]):
            slots = claims.get(name, frozenset())
            row = Row(name=name, device=device, shelf=shelves.get(name, {}), held=slots)
            left = replace(row, shelf=fade(row, row.slots(), DIVIDED, moment))
            rows[physical] = (*rows.get(physical, ()), left)
    return rows


def _defaults(inventory: Inventory) -> Iterator[ResourceName]:
    return (each.device.resource for each in inventory.known.values())


def settle(case: Case) -> Settled:
    """The next shelves of one device that is found, or that nobody knows."""
    names = dict.fromkeys([*case.shelves, *case.held])
    target = case.target
    if target is None:
        cause = DIVIDED if case.replaced else UNKNOWN
        return Settled(shelves={name: _faded(case.row(name), cause, case) for name in names})
    cause = f"the device is listed as {target.resource} now"
    old = {name: _faded(case.row(name), cause, case) for name in names if name != target.resource}
    waits = _waits(case, target, old)
    row = case.row(target.resource)
    new = _faded(row, waits, case) if waits else _arranged(row, target, case.moment)
    return Settled(shelves={**old, target.resource: new}, waits=waits)


def _arranged(row: Row, target: Target, moment: Moment) -> Shelf:
    alive = survivors(row.shelf, row.held, target.replicas, known=moment.holders.known)
    marks = dict.fromkeys(alive, WANTED)
    rest = [slot for slot in row.slots() if slot not in marks]
    marks |= fade(row, rest, LEFT_OUT, moment)
    return row.shelf if marks == row.shelf else marks


def _faded(row: Row, cause: str, case: Case) -> Shelf:
    return fade(row, row.slots(), cause, case.moment)


def _frozen(case: Case) -> Settled:
    # A device that is not found keeps its list as it was, whatever the config says
    # meanwhile; what pods hold of it is listed as well.
    shelves = dict(case.shelves)
    for name in case.held:
        row = case.row(name)
        unlisted = [slot for slot in sorted(row.held) if slot not in row.shelf]
        shelves[name] = {**row.shelf, **fade(row, unlisted, LEFT_OUT, case.moment)}
    return Settled(shelves=shelves)


def _waits(case: Case, target: Target, old: Mapping[ResourceName, Shelf]) -> str:
    """Why the device cannot be listed under its name yet; "" when it can."""
    holding = sorted(str(name) for name in old if case.held.get(name))
    holding += sorted(str(row.device) for row in case.former if row.held)
    if holding:
        return f"pods hold the device as {shortened(holding)}"
    left = [mark for shelf in old.values() for mark in shelf.values()]
    left += [mark for row in case.former for mark in row.shelf.values()]
    if not left or _has_moved(case, target):
        return ""
    # Not by their ids: GPUs that wait for the same are told in one line.
    was = ", ".join([*sorted(map(str, old)), *(["what it was before"] if case.former else [])])
    if not case.moment.holders.known:
        return f"holders unknown, so it may be in use as {was}"
    # An answer asked for while the old name was still Healthy proves nothing.
    if case.moment.holders.begun > _latest(left):
        return ""
    return f"PodResources has yet to show it free as {was}"


def _has_moved(case: Case, target: Target) -> bool:
    return any(mark.healthy for mark in case.shelves.get(target.resource, {}).values())


def _latest(marks: Iterable[Mark]) -> float:
    return max(mark.since for mark in marks)


def _waiting(target: Target, why: str, devices: list[DeviceId]) -> Unmet:
    reason = f"{shortened(devices)} must wait: {why}"
    return Unmet(where=target.where, resource=target.resource, reason=reason)
