"""XID → what it does to its GPU, with where each line comes from.

Sources, by the name a line uses:

* *catalogue X*: NVIDIA's Xid catalogue for Ampere and newer
  (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), ``X`` being its bucket
  for the immediate action. RESTART_APP and IGNORE leave the GPU usable: an event.
  RESET_GPU holds it until it was reset, RESTART_BM and RESTART_VM until the reboot.
* *incumbent*: the list that NVIDIA's own device plugin ignores (13, 31, 43, 45, 68, 109).
* *EKS*, *GKE*: what these clouds' node agents take for fatal.

Workflow buckets need the register bits of the kernel log, which NVML's events do not
carry. There the GPU is kept from new pods until it has been seen good for the hold-down;
where a reset is needed, the driver's recovery action (``recovery.py``) says so and holds
it. An XID that is not in the table is treated the same way: it may be a new hardware
fault, so it is not ignored, and it may be harmless, so it does not cost the GPU for good.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deviceplugin.model import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What an XID does by default.

    Attributes:
        name: what happened, for people.
        source: where the action comes from.

    """

    action: Action
    name: str
    source: str


UNKNOWN = Rule(
    action=Action.RECOVER,
    name="XID that this version does not know",
    source="neither trusted nor condemned: the poll and the recovery action decide",
)


def rule(xid: int) -> Rule:
    """Return the default for ``xid``."""
    return TABLE.get(xid, UNKNOWN)


def kind(xid: int) -> str:
    """Return the fault's kind as configs and metrics write it: ``xid-79``."""
    return f"xid-{xid}"


def _event(name: str, source: str) -> Rule:
    return Rule(action=Action.EVENT, name=name, source=source)


def _recover(name: str, source: str) -> Rule:
    return Rule(action=Action.RECOVER, name=name, source=source)


def _reset(name: str, source: str) -> Rule:
    return Rule(action=Action.RESET, name=name, source=source)


def _reboot(name: str, source: str) -> Rule:
    return Rule(action=Action.REBOOT, name=name, source=source)


def _engines(name: str, xids: Iterable[int]) -> dict[int, Rule]:
    """One channel of an engine failed; the catalogue has the same line for each of them."""
    return {xid: _event(f"{name} error", "catalogue RESTART_APP") for xid in xids}


TABLE: Mapping[int, Rule] = {
    8: _event("channel idle timeout", "catalogue RESTART_APP"),
    11: _event("invalid push buffer stream", "catalogue RESTART_APP"),
    13: _event("graphics engine exception", "catalogue RESTART_APP; incumbent"),
    14: _event("fake error", "catalogue IGNORE"),
    25: _event("illegal notify", "catalogue RESTART_APP"),
    31: _event("GPU memory page fault", "catalogue RESTART_APP; incumbent"),
    32: _event("invalid push buffer stream (PBDMA)", "catalogue RESTART_APP"),
    37: _event("unimplemented firmware method", "catalogue IGNORE"),
    38: _event("firmware watchdog timeout", "catalogue IGNORE"),
    **_engines("copy engine", (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))),
    43: _event("GPU stopped processing a channel", "catalogue IGNORE; incumbent"),
    44: _event("graphics fault during context switch", "catalogue IGNORE"),
    45: _event("channel removed, follows another XID", "catalogue WORKFLOW_XID_45; incumbent"),
    46: _reset("GPU stopped processing", "catalogue RESET_GPU; EKS"),
    48: _reset("double bit ECC error", "catalogue WORKFLOW_XID_48, drain and reset; EKS, GKE"),
    54: _reboot("auxiliary power not connected", "catalogue CHECK_MECHANICALS: power off; EKS"),
    60: _event("SEC2 engine error", "catalogue RESTART_APP"),
    62: _reset("micro-controller halted", "catalogue RESET_GPU; EKS"),
    # GKE and EKS differ on 63: the row is remapped at the next reset, the GPU works on.
    63: _event("memory row remapped", "catalogue IGNORE; EKS ignores it, GKE does not"),
    64: _reset("memory row remapping failed", "catalogue RESET_GPU; EKS, GKE"),
    66: _event("firmware register access violation", "catalogue IGNORE"),
    67: _event("firmware verification violation", "catalogue IGNORE"),
    **_engines("video decoder", (68, 83, 84, 88, 89, 96, 97, 98)),
    69: _event("graphics class error", "catalogue RESTART_APP"),
    74: _recover("NVLink error", "catalogue WORKFLOW_NVLINK_ERR: depends on register bits; EKS"),
    78: _event("vGPU start error", "catalogue UPDATE_SWFW"),
    79: _reboot("GPU has fallen off the bus", "catalogue RESTART_BM; EKS, GKE"),
    80: _event("corrupted data sent to the GPU", "catalogue RESTART_APP"),
    **_engines("JPEG decoder", (82, *range(99, 106))),
    **_engines("optical flow", (86, 139)),
    92: _event("high single-bit ECC error rate", "catalogue IGNORE"),
    93: _event("InfoROM wear limit", "catalogue IGNORE"),
    # The incumbent takes the GPU away; the catalogue says that other work is not affected.
    94: _event("contained memory error", "catalogue RESTART_APP; not the incumbent"),
    95: _reset("uncontained memory error", "catalogue RESET_GPU; EKS"),
    106: Rule(action=Action.IGNORE, name="test message", source="catalogue IGNORE: a test"),
    107: Rule(action=Action.IGNORE, name="silent test message", source="catalogue IGNORE: a test"),
    108: _event("NVLink remote translation error", "catalogue IGNORE"),
    # The incumbent ignores 109, against NVIDIA's catalogue, which asks for the reset.
    109: _reset("context switch timeout", "catalogue RESET_GPU; EKS; not the incumbent"),
    110: _reset("security fault", "catalogue RESET_GPU; EKS"),
    119: _reset("GSP firmware does not answer", "catalogue RESET_GPU; EKS, GKE"),
    120: _reset("GSP firmware error", "catalogue RESET_GPU; EKS, GKE"),
    121: _event("C2C link error", "catalogue IGNORE"),
    123: _reset("power controller write failed", "GKE; no longer in the catalogue"),
    136: _reset("NVLink training failed", "catalogue RESET_GPU; EKS"),
    137: _event("NVLink privilege error", "catalogue IGNORE"),
    140: _reset("unrecovered ECC error", "catalogue RESET_GPU; EKS, GKE"),
    141: _event("fast path error", "catalogue IGNORE"),
    142: _recover("video encoder error", "catalogue CONTACT_SUPPORT; EKS"),
    143: _reset("GPU initialisation error", "catalogue RESET_GPU; EKS"),
    **{
        xid: _recover("NVLink 5 error", "catalogue WORKFLOW_NVLINK5_ERR: depends on register bits")
        for xid in range(144, 151)
    },
    151: _reboot("key rotation error", "catalogue RESTART_VM; EKS"),
    152: _event("DLA memory error", "catalogue IGNORE"),
    153: _event("DLA timeout", "catalogue IGNORE"),
    154: _event("recovery action changed", "catalogue: informational, the field itself decides"),
    155: _reset("NVLink software-defined error", "catalogue RESET_GPU; EKS"),
    156: _reset("resource retired", "catalogue RESET_GPU; EKS"),
    157: _event("resource retirement failed", "catalogue IGNORE"),
    158: _reset("fatal GPU timeout", "catalogue RESET_GPU; EKS"),
    159: _recover("CHI non-data error", "catalogue CHECK_UVM: depends on the node"),
    160: _event("channel retired", "catalogue IGNORE"),
    161: _event("channel retirement failed", "catalogue IGNORE"),
    **{xid: _event("hibernation", "catalogue gives no action") for xid in range(162, 166)},
    168: _event("reduced memory capacity", "catalogue gives no action; the GPU works on"),
}
