"""What is asked of the search for units that belong together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deviceplugin.model import DeviceId

Weight = Callable[[DeviceId, DeviceId], int]
"""How far two devices are apart; lower is nearer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A device with one unit; ``gpu`` is the physical device, ``node`` its NUMA node."""

    device: DeviceId
    gpu: DeviceId
    node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is offered.

    Attributes:
        free: candidates by index.
        fixed: devices of units that must be included.
        count: how many of ``free`` to take, no more than there are.
        parts: number of units of each GPU that is listed in parts.

    """

    free: Sequence[Candidate]
    fixed: Sequence[Candidate]
    count: int
    parts: Mapping[DeviceId, int]
    weight: Weight
