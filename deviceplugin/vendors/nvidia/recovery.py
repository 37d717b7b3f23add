"""What the driver says must be done with a GPU: NVML field 230, GPU recovery action.

The numbers are NVML's ``nvmlDeviceGpuRecoveryAction_t``; the driver is the authority on
its own GPU, so these outrank what the XID table guesses.
"""

from dataclasses import dataclass

from deviceplugin.model import Action

FIELD = 230
NONE = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One value of the field: what it does to the GPU's units, and its name."""

    action: Action
    text: str


_DEMANDS = {
    1: Demand(action=Action.RESET, text="the driver asks for a GPU reset"),
    2: Demand(action=Action.REBOOT, text="the driver asks for a node reboot"),
    # Peer-to-peer traffic must end first; the field then says what comes next.
    3: Demand(action=Action.RECOVER, text="the driver asks to drain peer-to-peer traffic"),
    4: Demand(action=Action.RESET, text="the driver asks to drain the GPU and reset it"),
    # The IMEX domain spans nodes; a pod that stays on this node is not touched by it.
    5: Demand(action=Action.EVENT, text="the driver asks to recover the IMEX domain"),
    6: Demand(action=Action.RESET, text="the driver asks for a bus reset"),
    7: Demand(action=Action.REBOOT, text="the driver asks for a system reboot"),
}


def demand(value: int) -> Demand | None:
    """What ``value`` asks for; None when it asks for nothing.

    A value newer than this table keeps the GPU from new pods until the driver takes it
    back: whatever it is, the driver wants something done.
    """
    if value == NONE:
        return None
    unknown = Demand(action=Action.RECOVER, text=f"the driver asks for recovery action {value}")
    return _DEMANDS.get(value, unknown)
