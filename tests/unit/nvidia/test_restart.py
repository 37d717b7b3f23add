"""What a restart of the daemon learns of resets that it did not see."""

import pytest

from deviceplugin import inventory as inv
from deviceplugin.events import Symptom, WasReset
from deviceplugin.model import Action, DeviceId
from deviceplugin.vendors.nvidia.health import RECOVERY_ACTION

GPU = DeviceId("GPU-0")


@pytest.mark.parametrize(
    ("kinds", "healthy"),
    [
        pytest.param(["xid-95", RECOVERY_ACTION], True, id="the driver had asked for it"),
        pytest.param(["xid-95"], False, id="the driver never asked"),
    ],
)
def test_reset_while_away(kinds: list[str], *, healthy: bool) -> None:
    """A fault is over when the demand that came with it is; without one nobody can tell."""
    inventory = inv.Inventory()
    for kind in kinds:
        symptom = Symptom(device=GPU, kind=kind, detail="", action=Action.RESET, at=1.0)
        inventory = inv.apply(inventory, symptom)
    assert GPU in inventory.verdict()
    inventory = inv.apply(inventory, WasReset(device=GPU, at=2.0, witness=RECOVERY_ACTION))
    assert (GPU not in inventory.verdict()) is healthy
