"""What the kubelet is shown: every unit ever listed that may not leave the list yet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from deviceplugin.model import DeviceId, ResourceName
from deviceplugin.sharing.plan import Target, Unmet


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How one unit stands in the plan, its device's health aside.

    Attributes:
        healthy: it is one of the units that the config asks for.
        since: when it stopped being one.
        reason: why it is not.

    """

    healthy: bool = True
    since: float = 0.0
    reason: str = ""


WANTED = Mark()

Shelf = Mapping[int, Mark]
"""The listed units of one device under one name, by slot."""

Shelves = Mapping[ResourceName, Mapping[DeviceId, Shelf]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The units listed now.

    Attributes:
        shelves: by name and device; a name that was listed once stays, with nothing on it.
        targets: the plan that the list follows: the last one that fitted.
        waiting: what the plan asks for and pods or PodResources hold up.

    """

    shelves: Shelves = field(default_factory=dict)
    targets: Mapping[DeviceId, Target] = field(default_factory=dict)
    waiting: tuple[Unmet, ...] = ()

    def of_device(self, device: DeviceId) -> dict[ResourceName, Shelf]:
        """The shelves of one device, by name."""
        return {name: row[device] for name, row in self.shelves.items() if device in row}

    def devices(self) -> dict[DeviceId, None]:
        """All devices with a unit listed, each once, in a stable order."""
        return {device: None for row in self.shelves.values() for device in row}

    def leaving(self) -> Iterator[tuple[DeviceId, Mark]]:
        """The units that are listed Unhealthy because the plan does not ask for them."""
        for row in self.shelves.values():
            for device, shelf in row.items():
                for mark in shelf.values():
                    if mark is not WANTED and not mark.healthy:
                        yield device, mark
