"""When the first list may go out."""

from dataclasses import replace

import pytest

from deviceplugin.config.rules import Config
from deviceplugin.first_list import FirstList
from deviceplugin.holders import Holders
from deviceplugin.inventory import Inventory, Known
from deviceplugin.model import BackendState, Device, DeviceId, ResourceName

RULE = FirstList(started=100.0, bus_wait=10.0)
GPU = Device(id=DeviceId("GPU-1"), resource=ResourceName("nvidia.com/gpu"), index=0)
FOUND = Inventory(
    config=Config(),
    scanned=True,
    backend=BackendState.READY,
    devices={GPU.id: GPU},
    known={GPU.id: Known(device=GPU, boot="b")},
    bus=frozenset({"0000:01:00.0"}),
    holders=Holders(known=True, why=""),
)


@pytest.mark.parametrize(
    ("inventory", "now", "waits_for"),
    [
        pytest.param(FOUND, 100.1, "", id="all-there"),
        pytest.param(replace(FOUND, config=None), 999.0, "a valid config", id="no-config-ever"),
        pytest.param(
            replace(FOUND, bus=frozenset({"a", "b"})), 101.0, "1 more device", id="fewer-than-bus"
        ),
        pytest.param(replace(FOUND, bus=frozenset({"a", "b"})), 110.1, "", id="bus-wait-is-over"),
        pytest.param(replace(FOUND, bus=None), 100.1, "", id="bus-unknown"),
        pytest.param(replace(FOUND, holders=Holders()), 100.5, "who holds what", id="not-asked"),
        pytest.param(replace(FOUND, holders=Holders()), 101.1, "", id="holders-do-not-answer"),
        pytest.param(
            replace(FOUND, holders=Holders().unavailable("no socket")), 100.1, "", id="no-holders"
        ),
        pytest.param(
            Inventory(config=Config(), backend=BackendState.STARTING),
            100.1,
            "driver",
            id="starting",
        ),
        pytest.param(
            Inventory(config=Config(), backend=BackendState.NO_DRIVER), 100.1, "", id="no-driver"
        ),
        pytest.param(
            replace(FOUND, scanned=False, devices={}, backend=BackendState.NO_DRIVER),
            100.1,
            "driver",
            id="driver-late-and-units-known",
        ),
        pytest.param(
            replace(FOUND, scanned=False, devices={}, backend=BackendState.NO_DRIVER),
            110.1,
            "",
            id="driver-does-not-come",
        ),
    ],
)
def test_the_first_list_waits_only_for_what_would_cost_pods(
    inventory: Inventory, now: float, waits_for: str
) -> None:
    """Each reason to wait has a name and an end; everything else is listed at once."""
    said = RULE.waits_for(inventory, now)
    assert said == "" if not waits_for else waits_for in said
