"""Pods ask for several GPUs of ours under each topology policy."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from deviceplugin.simulation.machine_file import made_up_uuid
from tests.kubelet import topology
from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Kubelet

NODE = {made_up_uuid("h100x8", index): index // 4 for index in range(8)}
"""NUMA node by id, as the simulated H100 machine has them."""

UNKNOWN = "nvidia: {driver: 580.95.05, gpus: {count: 8}}"

policies = pytest.mark.parametrize("policy", topology.POLICIES)


@pytest.fixture
def aligning(boot: Callable[..., Kubelet], policy: str) -> Kubelet:
    """A kubelet with the policy."""
    return boot(**topology.settings(policy))


def _nodes(ids: Sequence[str]) -> set[int]:
    return {NODE[id_.partition("::")[0]] for id_ in ids}


@pytest.mark.parametrize(
    "sizes", [(2, 2, 4), (1, 4, 3), (3, 4, 1)], ids=["2, 2, 4", "1, 4, 3", "3, 4, 1"]
)
@policies
def test_each_pod_is_on_one_node(aligning: Kubelet, ours: Ours, sizes: Sequence[int]) -> None:
    """The kubelet aligns or asks us: either way no pod is split, and all GPUs are used."""
    kubelet = aligning
    ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    for number, size in enumerate(sizes):
        admission = kubelet.admit(f"pod-{number}", Container(limits={GPU: size}))
        assert admission.admitted, admission.message
        assert len(_nodes(admission.devices["main"][GPU])) == 1


@policies
def test_more_than_a_node_has(aligning: Kubelet, ours: Ours, policy: str) -> None:
    """A pod may span nodes, save under the policy that forbids it."""
    kubelet = aligning
    ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    admission = kubelet.admit("a", Container(limits={GPU: 6}))
    if policy == "single-numa-node":
        assert admission.reason == "TopologyAffinityError"
        assert kubelet.admit("b", Container(limits={GPU: 4})).admitted
    else:
        assert len(admission.devices["main"][GPU]) == 6


@policies
def test_shares_of_one_node(aligning: Kubelet, ours: Ours, policy: str) -> None:
    """All shares of a node go to one pod, where the policy aligns; all are admitted anyway."""
    kubelet = aligning
    ours.share(4)
    ours.start()
    kubelet.wait(allocatable=32, capacity=32)
    for pod in "ab":
        admission = kubelet.admit(pod, Container(limits={GPU: 16}))
        assert admission.admitted, admission.message
        if policy != "none":
            assert len(_nodes(admission.devices["main"][GPU])) == 1


@pytest.mark.smoke
@policies
def test_unknown_nodes_keep_no_pod_out(aligning: Kubelet, ours: Ours, root: Path) -> None:
    """A machine that does not tell its nodes gets pods of any size, also after a restart."""
    kubelet = aligning
    machine = root / "flat.yaml"
    machine.write_text(UNKNOWN)
    ours.start(machine=machine)
    kubelet.wait(allocatable=8, capacity=8)
    for pod, size in {"a": 1, "b": 6, "c": 1}.items():
        admission = kubelet.admit(pod, Container(limits={GPU: size}))
        assert admission.admitted, admission.message
    assert all(again.admitted for again in kubelet.restart())
    kubelet.wait(allocatable=8, capacity=8)
    for pod in "abc":
        kubelet.remove(pod)
    assert kubelet.admit("d", Container(limits={GPU: 8})).admitted


@pytest.mark.parametrize(("policy", "spread"), [("none", 8), ("best-effort", 4)])
def test_shares_are_spread(aligning: Kubelet, ours: Ours, spread: int) -> None:
    """Pods of one share each are on as many GPUs as can be, of those that the kubelet offers.

    A policy that aligns offers us the shares of one node only while it has any.
    """
    kubelet = aligning
    ours.share(4)
    ours.start()
    kubelet.wait(allocatable=32, capacity=32)
    for number in range(8):
        assert kubelet.admit(f"p{number}", Container(limits={GPU: 1})).admitted
    ids = [id_ for pod in kubelet.held().values() for id_ in pod["main"][GPU]]
    used = Counter(id_.partition("::")[0] for id_ in ids)
    assert sorted(used.values()) == [8 // spread] * spread
