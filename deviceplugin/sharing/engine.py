"""The one pure entry of the sharing code: what is known in, what to publish out."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from deviceplugin.inventory import Inventory
from deviceplugin.model import Views
from deviceplugin.sharing.drain import step
from deviceplugin.sharing.fit import fit
from deviceplugin.sharing.listing import Listing
from deviceplugin.sharing.plan import Unmet, plan
from deviceplugin.sharing.vendor import Vendor
from deviceplugin.sharing.views import views

NOTHING = Listing()
"""Before the first list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One turn of the loop.

    Attributes:
        unmet: what the config asks for and this node cannot give now, and why.
        draining: units wait to leave the list, or a new name waits: ask PodResources often.
        ask_holders: units stopped being asked for just now: ask at once, after publishing.
        wake_at: when to look again if no event comes before; None for never.

    """

    listing: Listing
    views: Views = field(default_factory=dict)
    unmet: tuple[Unmet, ...] = ()
    draining: bool = False
    ask_holders: bool = False
    wake_at: float | None = None


def advance(inventory: Inventory, listing: Listing, now: float, vendor: Vendor) -> Outcome:
    """The next list and all that follows from it. Pure; call it when an event or time asks.

    Without a config nothing is listed. When the *first* list is due is the caller's
    decision: what is listed once cannot be taken back.
    """
    if inventory.config is None:
        return Outcome(listing=listing)
    planned = fit(plan(inventory, vendor.arrange), listing)
    after = step(listing, planned, inventory, now)
    shown = views(planned, after, inventory, vendor.deliver)
    leaving = [mark.since for device, mark in after.leaving() if _can_drain(device, inventory)]
    return Outcome(
        listing=after,
        views=shown,
        unmet=tuple(dict.fromkeys([*planned.unmet, *after.waiting, *_undelivered(shown)])),
        draining=bool(leaving or after.waiting),
        ask_holders=now in leaving or after.targets != listing.targets,
        wake_at=_wake_at(inventory, leaving, now),
    )


def _can_drain(device: str, inventory: Inventory) -> bool:
    # The list of a device that is known and not found stands still until it is back.
    return device in inventory.devices or device not in inventory.known


def _undelivered(shown: Views) -> Iterable[Unmet]:
    return (
        Unmet(where="", resource=name, reason=view.delivery.unmet)
        for name, view in shown.items()
        if view.units and view.delivery.unmet
    )


def _wake_at(inventory: Inventory, leaving: Iterable[float], now: float) -> float | None:
    hold = inventory.bounds.withdrawn_hold
    times = [since + hold for since in leaving if since + hold > now]
    lapse = inventory.holders.next_change(now)
    return min([*times, *([lapse] if lapse is not None else [])], default=None)
