"""The table of XIDs and of recovery actions."""

import pytest

from deviceplugin.model import Action
from deviceplugin.vendors.nvidia import recovery, xids


@pytest.mark.parametrize(
    ("xid", "action"),
    [
        (13, Action.EVENT),
        (31, Action.EVENT),
        (43, Action.EVENT),
        (45, Action.EVENT),
        (48, Action.RESET),
        (63, Action.EVENT),
        (64, Action.RESET),
        (68, Action.EVENT),
        (74, Action.RECOVER),
        (79, Action.REBOOT),
        (94, Action.EVENT),
        (95, Action.RESET),
        (106, Action.IGNORE),
        (109, Action.RESET),
        (119, Action.RESET),
        (140, Action.RESET),
        (149, Action.RECOVER),
        (154, Action.EVENT),
    ],
)
def test_defaults(xid: int, action: Action) -> None:
    """The XIDs that people meet have the action that their source asks for."""
    assert xids.rule(xid).action is action


@pytest.mark.parametrize("xid", [0, 1, 999, 12345])
def test_unknown_xid(xid: int) -> None:
    """An XID that nobody described keeps its GPU from new pods only until it is seen good."""
    assert xids.rule(xid) is xids.UNKNOWN
    assert xids.UNKNOWN.action is Action.RECOVER


def test_every_line_has_a_source() -> None:
    """No action stands in the table without saying where it comes from."""
    known = ("catalogue", "incumbent", "EKS", "GKE")
    assert all(rule.name for rule in xids.TABLE.values())
    assert all(any(name in rule.source for name in known) for rule in xids.TABLE.values())


def test_incumbents_ignored_stay_healthy() -> None:
    """What NVIDIA's plugin ignores takes no GPU away here, save where its catalogue disagrees."""
    unhealthy = {xid for xid in (13, 31, 43, 45, 68, 109) if xids.rule(xid).action != Action.EVENT}
    assert unhealthy == {109}


def test_kind() -> None:
    """Kinds are what configs and metrics write."""
    assert xids.kind(79) == "xid-79"


@pytest.mark.parametrize(
    ("value", "action"),
    [
        (1, Action.RESET),
        (2, Action.REBOOT),
        (3, Action.RECOVER),
        (4, Action.RESET),
        (5, Action.EVENT),
        (6, Action.RESET),
        (7, Action.REBOOT),
        (8, Action.RECOVER),
    ],
)
def test_recovery_actions(value: int, action: Action) -> None:
    """Each value of the field has its action; a newer one holds the GPU until it is gone."""
    demand = recovery.demand(value)
    assert demand is not None
    assert demand.action is action


def test_no_recovery_action() -> None:
    """None is none."""
    assert recovery.demand(0) is None
