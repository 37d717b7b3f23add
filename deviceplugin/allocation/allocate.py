"""Allocate: from the unit ids of each container to what its container gets. Pure."""

from collections.abc import Iterable, Sequence

from deviceplugin.errors import AllocationRefusedError
from deviceplugin.model import ContainerEdits, Device, ResourceView, UnitId

_SHOWN = 3
"""Ids quoted in a refusal: the text ends up in a pod's status."""


def allocate(view: ResourceView, requests: Sequence[Sequence[UnitId]]) -> list[ContainerEdits]:
    """Answer each container's ids, in order; the same ids get the same answer, always.

    Healthy or not, held or free: every listed id is answered. The kubelet alone books
    units, offers an init container's ids to later containers again, and fails the pod
    for good on any error of ours. Ids named twice count once.

    Ids whose device is not on the node now are answered with the devices that are, and
    no ids with none: what a container gets that may see no device is the delivery's
    business, for a variable left out would let the image's own value through.

    Raises:
        AllocationRefusedError: an id that is not listed, or more ids for one container
            than the config allows.

    """
    return [_container(view, tuple(dict.fromkeys(ids))) for ids in requests]


def _container(view: ResourceView, ids: tuple[UnitId, ...]) -> ContainerEdits:
    _refuse_unknown(view, ids)
    _refuse_several(view, ids)
    return view.delivery.edits(_devices(view, ids))


def _devices(view: ResourceView, ids: Iterable[UnitId]) -> list[Device]:
    names = {view.unit_by_id[unit].device for unit in ids}
    found = (view.devices.get(name) for name in names)
    return sorted((device for device in found if device is not None), key=_place)


def _place(device: Device) -> tuple[int, str]:
    return device.index, device.id


def _refuse_unknown(view: ResourceView, ids: Iterable[UnitId]) -> None:
    unknown = sorted(unit for unit in ids if unit not in view.unit_by_id)
    if unknown:
        raise AllocationRefusedError(
            f"{view.name} has no {_quoted(unknown)} on this node ({len(view.units)} units are"
            " listed); delete the pod, its controller or you make a new one that gets listed units"
        )


def _refuse_several(view: ResourceView, ids: Sequence[UnitId]) -> None:
    if view.rules.fail_requests_greater_than_one and len(ids) > 1:
        raise AllocationRefusedError(
            f"a container asks for {len(ids)} of {view.name}, and the node's config allows 1"
            " (failRequestsGreaterThanOne: true): these units are shares of a device, more of"
            f" them give no more of it; ask for {view.name}: 1"
        )


def _quoted(ids: Sequence[UnitId]) -> str:
    names = ", ".join(repr(str(unit)) for unit in ids[:_SHOWN])
    more = len(ids) - _SHOWN
    return f"{names} (and {more} more)" if more > 0 else names
