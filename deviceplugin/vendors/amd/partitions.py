"""Which resource a GPU or a partition counts under: the strategies ``single`` and ``mixed``."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from deviceplugin.config.amd_options import AmdFlags, PartitionStrategy
from deviceplugin.model import Arrangement, Device, DeviceId, ResourceName

_DOMAIN = "amd.com"
_WHOLE = "whole"
"""Kind of a GPU that is one unit, whether or not it could be divided."""


def arrange(flags: AmdFlags, devices: Sequence[Device]) -> Arrangement:
    """Name the resources of these devices. Pure.

    Under ``single`` all count as amd.com/gpu, and of unlike kinds only one is given out: a
    pod that asks for amd.com/gpu must not get an eighth of a GPU on one node and a whole on
    another try. It is the kind that the most GPUs have, so that the least hardware idles.
    """
    if flags.partition_strategy == PartitionStrategy.MIXED:
        return Arrangement(devices=tuple(map(_by_layout, devices)))
    return Arrangement(devices=tuple(devices), held_back=_held_back(devices))


def _by_layout(device: Device) -> Device:
    # A GPU that cannot be divided has no layout, and keeps the plain name.
    layout = re.sub(r"[^a-z0-9]+", "_", device.layout.lower()).strip("_")
    return replace(device, resource=ResourceName(f"{_DOMAIN}/{layout or 'gpu'}"))


def _held_back(devices: Sequence[Device]) -> Mapping[DeviceId, str]:
    gpus: dict[str, set[DeviceId]] = {}
    for device in devices:
        gpus.setdefault(_kind(device), set()).add(device.physical)
    if len(gpus) < 2:  # noqa: PLR2004 - two kinds are unlike
        return {}
    served = max(gpus, key=lambda kind: (len(gpus[kind]), _units(devices, kind), kind))
    why = (
        f"partitionStrategy single serves one kind, here {served} ({len(gpus[served])} of"
        f" {sum(map(len, gpus.values()))} GPUs); write partitionStrategy: mixed to serve each"
        " kind under a name of its own, or divide all GPUs alike"
    )
    return {device.id: why for device in devices if _kind(device) != served}


def _kind(device: Device) -> str:
    return device.layout if device.parent else _WHOLE


def _units(devices: Iterable[Device], kind: str) -> int:
    return sum(_kind(device) == kind for device in devices)
