"""Topology policies: every pod that our GPUs can serve is admitted, on GPUs near each other."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from deviceplugin.simulation.machine_file import made_up_uuid
from tests.kubelet import topology
from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Kubelet

Boot = Callable[..., Kubelet]

NEAR = {made_up_uuid("h100x8", index): index // 4 for index in range(8)}
UNKNOWN = """
name: flat
numa: ["0-7", "8-15"]
nvidia:
  driver: 580.95.05
  gpus: { count: 4, model: NVIDIA L4, memory: 23034, device: "0x27b8" }
"""
ONE_NODE = {"single-numa-node"}


def _skip_what_is_not_simulated(kind: str, policy: str) -> None:
    if kind.startswith("simulated-") and policy == "restricted":
        pytest.skip("the simulated kubelet has no policy restricted")


@pytest.mark.parametrize("policy", topology.POLICIES)
def test_gpus_of_two_nodes(kind: str, boot: Boot, ours: Ours, policy: str) -> None:
    """Pods of three GPUs and of one fill a node each; one of eight needs both nodes."""
    _skip_what_is_not_simulated(kind, policy)
    kubelet = boot(**topology.settings(kind, policy))
    ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    all_eight = kubelet.admit("all", Container(limits={GPU: 8}))
    assert all_eight.admitted is (policy not in ONE_NODE)
    kubelet.remove("all")
    for number, size in enumerate((3, 3, 1, 1)):
        admission = kubelet.admit(f"p{number}", Container(limits={GPU: size}))
        assert admission.admitted, admission.message
        assert len({NEAR[id_] for id_ in admission.devices["main"][GPU]}) == 1
    assert not kubelet.admit("more", Container(limits={GPU: 1})).admitted


@pytest.mark.parametrize("policy", topology.POLICIES)
def test_gpus_of_unknown_nodes(kind: str, boot: Boot, ours: Ours, root: Path, policy: str) -> None:
    """What the kernel cannot place is said to be nowhere, which every policy admits."""
    _skip_what_is_not_simulated(kind, policy)
    machine = root / "flat.yaml"
    machine.write_text(UNKNOWN)
    kubelet = boot(**topology.settings(kind, policy))
    ours.start(machine=machine)
    kubelet.wait(allocatable=4, capacity=4)
    for number, size in enumerate((3, 1)):
        admission = kubelet.admit(f"p{number}", Container(limits={GPU: size}))
        assert admission.admitted, admission.message


@pytest.mark.parametrize(("policy", "spread"), [("none", 8), ("best-effort", 4)])
def test_shares_are_spread(kind: str, boot: Boot, ours: Ours, policy: str, spread: int) -> None:
    """The kubelet follows our preference: pods of one share each are on as many GPUs as can be.

    A policy that aligns offers us the shares of one node only while it has any.
    """
    kubelet = boot(**topology.settings(kind, policy))
    ours.share(4)
    ours.start()
    kubelet.wait(allocatable=32, capacity=32)
    for number in range(8):
        assert kubelet.admit(f"p{number}", Container(limits={GPU: 1})).admitted
    ids = [id_ for pod in kubelet.held().values() for id_ in pod["main"][GPU]]
    used = Counter(id_.partition("::")[0] for id_ in ids)
    assert sorted(used.values()) == [8 // spread] * spread
