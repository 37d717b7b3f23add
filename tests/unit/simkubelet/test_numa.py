"""Which NUMA nodes the simulated kubelet aligns a request to."""

import pytest

from deviceplugin.simulation.kubelet import numa
from deviceplugin.simulation.kubelet.outcomes import AlignmentError

NODES = {"a": (0,), "b": (0,), "c": (1,), "d": (1,), "e": (1,), "f": ()}


def request(size: int, *, free: str = "abcdef", lent: str = "") -> numa.Request:
    """A request on the machine above."""
    return numa.Request(listed=NODES, available=set(free), lent=set(lent), size=size)


@pytest.mark.parametrize(
    ("policy", "size", "expected"),
    [
        pytest.param("none", 3, None, id="nobody-aligns"),
        pytest.param("best-effort", 2, {0}, id="lowest-node"),
        pytest.param("best-effort", 3, {1}, id="the-node-that-serves"),
        pytest.param("best-effort", 4, {0, 1}, id="both-nodes"),
        pytest.param("best-effort", 6, None, id="one-has-no-node"),
        pytest.param("single-numa-node", 3, {1}, id="single-node-serves"),
    ],
)
def test_mask(policy: numa.Policy, size: int, expected: set[int] | None) -> None:
    """The fewest and lowest nodes with enough devices are chosen."""
    assert numa.mask(policy, request(size)) == expected


@pytest.mark.parametrize("size", [4, 6], ids=["spans", "too-many"])
def test_single_node_refuses(size: int) -> None:
    """A request that no single node serves is refused under that policy."""
    with pytest.raises(AlignmentError):
        numa.mask("single-numa-node", request(size))


def test_restricted_compares_with_an_empty_machine() -> None:
    """Two nodes for what would fit on one are refused; for what never would they are not."""
    with pytest.raises(AlignmentError):
        numa.mask("restricted", request(3, free="abd"))
    assert numa.mask("restricted", request(4)) == {0, 1}


def test_what_was_lent_binds_to_its_node() -> None:
    """A device of a finished init container is taken over, so its node must be in the mask."""
    assert numa.mask("best-effort", request(2, free="acd", lent="c")) == {1}


def test_nodes_that_the_machine_does_not_have_never_count() -> None:
    """Devices on an unknown node serve no policy that aligns."""
    assert numa.mask("best-effort", request(2), (5,)) is None
    with pytest.raises(AlignmentError):
        numa.mask("restricted", request(2), (5,))
