"""Small views to allocate from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from deviceplugin.model import (
    AllocationRules,
    ContainerEdits,
    Device,
    DeviceId,
    ResourceName,
    ResourceView,
    Unit,
    UnitId,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Names the devices it is given, in the order given, so that the order shows."""

    unmet: str = ""

    def edits(self, devices: Sequence[Device]) -> ContainerEdits:
        """Edits with one variable that lists the devices."""
        return ContainerEdits(env={"DEVICES": ",".join(device.id for device in devices)})


MakeView = Callable[..., ResourceView]


def _ids(device: str, shares: int) -> list[str]:
    return [device] if shares == 1 else [f"{device}::{n}" for n in range(shares)]


def _make(
    devices: int = 4,
    shares: int = 1,
    *,
    nodes: Sequence[int | None] = (),
    rules: AllocationRules | None = None,
    unhealthy: Sequence[str] = (),
    missing: Sequence[str] = (),
) -> ResourceView:
    names = [f"GPU-{index}" for index in range(devices)]
    units = [
        Unit(
            id=UnitId(unit),
            device=DeviceId(name),
            healthy=unit not in unhealthy,
            numa_node=nodes[place] if nodes else None,
        )
        for place, name in enumerate(names)
        for unit in _ids(name, shares)
    ]
    present = [name for name in names if name not in missing]
    return ResourceView(
        name=ResourceName("nvidia.com/gpu"),
        units=tuple(units),
        devices={
            DeviceId(name): Device(
                id=DeviceId(name),
                resource=ResourceName("nvidia.com/gpu"),
                index=names.index(name),
            )
            for name in reversed(present)
        },
        delivery=Listing(),
        rules=rules or AllocationRules(),
    )


@pytest.fixture
def make_view() -> MakeView:
    """Make a view of ``devices`` GPUs with ``shares`` units each."""
    return _make
