"""Units that the plan no longer asks for: Unhealthy at once, gone only when it is safe.

A kubelet dies of an id that vanishes between its choice and our Allocate answer, and of
one that a checkpointed pod holds (1.34 and later), so an id leaves the list only after
a while, unheld, and with three PodResources answers that lack it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from deviceplugin.holders import Holders
from deviceplugin.model import DeviceId, ResourceName
from deviceplugin.sharing.ids import unit_id
from deviceplugin.sharing.listing import Mark, Shelf


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When the list is made, and what is known of the pods then."""

    now: float
    holders: Holders
    withdrawn_hold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The units of one device under one name, and which of them are held."""

    name: ResourceName
    device: DeviceId
    shelf: Shelf
    held: frozenset[int] = frozenset()

    def slots(self) -> list[int]:
        """Listed and held units: a held one is listed, whoever gave it out."""
        return [*self.shelf, *(slot for slot in sorted(self.held) if slot not in self.shelf)]


def fade(row: Row, slots: Iterable[int], cause: str, moment: Moment) -> dict[int, Mark]:
    """Marks for units that are not asked for, without those that may leave the list."""
    free = f"{'withdrawn' if moment.holders.known else 'holders unknown'}: {cause}"
    in_use = f"draining: {cause}; a pod holds it"
    marks: dict[int, Mark] = {}
    for slot in slots:
        held = slot in row.held
        mark = _faded(row.shelf.get(slot), moment.now, in_use if held else free)
        if held or not _may_leave(row, slot, mark.since, moment):
            marks[slot] = mark
    return marks


def _faded(before: Mark | None, now: float, reason: str) -> Mark:
    if before is None or before.healthy:
        return Mark(healthy=False, since=now, reason=reason)
    if before.reason == reason:
        return before
    return Mark(healthy=False, since=before.since, reason=reason)


def _may_leave(row: Row, slot: int, since: float, moment: Moment) -> bool:
    if moment.now - since < moment.withdrawn_hold or not moment.holders.lacked_since(since):
        return False
    return moment.holders.lacked((row.name, unit_id(row.device, slot)))
