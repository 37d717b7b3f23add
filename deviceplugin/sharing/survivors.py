"""Which units of a device stay healthy under its target."""

from collections.abc import Iterable
from itertools import islice

from deviceplugin.sharing.ids import WHOLE
from deviceplugin.sharing.listing import Shelf


def survivors(shelf: Shelf, held: frozenset[int], replicas: int, *, known: bool) -> list[int]:
    """Slots to list Healthy: exactly ``replicas`` of them, held ones first.

    ``known`` False says that nobody can tell what is free. Then what is listed Healthy
    may be held, so it keeps its place before new units: a whole device counts as one of
    its shares, and does not come back while a share may be in use.
    """
    claimed = sorted(held)
    if not known:
        claimed += sorted(s for s, mark in shelf.items() if mark.healthy and s not in held)
    if replicas == 1:
        return claimed[:1] or [WHOLE]
    kept = claimed[:replicas]
    return kept + list(islice(_free_shares(kept, replicas), replicas - len(kept)))


def _free_shares(kept: list[int], replicas: int) -> Iterable[int]:
    # A held whole device stands for share 0; that one comes when the whole is given back.
    taken = {*kept, 0} if WHOLE in kept else set(kept)
    return (slot for slot in range(replicas) if slot not in taken)
