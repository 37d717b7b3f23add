"""Which NUMA nodes the simulated kubelet aligns a request to."""

import pytest

from deviceplugin.simulation.kubelet import numa
from deviceplugin.simulation.kubelet.outcomes import AlignmentError

NODES = {"a": (0,), "b": (0,), "c": (1,), "d": (1,), "e": (1,), "f": ()}


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
    assert numa.mask(policy, NODES, set(NODES), size) == expected


@pytest.mark.parametrize("size", [4, 6], ids=["spans", "too-many"])
def test_single_node_refuses(size: int) -> None:
    """A request that no single node serves is refused under that policy."""
    with pytest.raises(AlignmentError):
        numa.mask("single-numa-node", NODES, set(NODES), size)
