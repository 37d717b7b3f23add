"""What the planning code asks of a vendor: two pure functions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deviceplugin.backend import Backend, Partitioning
from deviceplugin.config.rules import Config
from deviceplugin.model import Arrangement, Delivery, Device, ResourceName

Deliver = Callable[[Config, ResourceName, Sequence[Device]], Delivery]
"""How a vendor hands out devices: ``Backend.delivery``."""

Arrange = Callable[[Config, Sequence[Device]], Arrangement]
"""What devices count as under a config: ``Partitioning.arrange``."""


def as_found(config: Config, devices: Sequence[Device]) -> Arrangement:
    """Leave each device under the resource that discovery gave it."""
    del config
    return Arrangement(devices=tuple(devices))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor, as the plan knows it."""

    deliver: Deliver
    arrange: Arrange = as_found


def of(backend: Backend) -> Vendor:
    """Take a backend's pure parts."""
    arrange = backend.arrange if isinstance(backend, Partitioning) else as_found
    return Vendor(deliver=backend.delivery, arrange=arrange)
