"""Pods that ended, or were deleted, while the kubelet was away; and a reboot of the node."""

import pytest

from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Counts, Kubelet
from tests.kubelet.podresources import listed

ONE = Container(limits={GPU: 1})


@pytest.fixture
def daemon(kubelet: Kubelet, ours: Ours) -> Ours:
    """Our daemon, serving; three pods hold seven GPUs."""
    ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    for name, count in (("a", 1), ("b", 2), ("c", 4)):
        assert kubelet.admit(name, Container(limits={GPU: count})).admitted
    return ours


@pytest.mark.usefixtures("daemon")
def test_a_pod_deleted_while_the_kubelet_was_away(kubelet: Kubelet) -> None:
    """Its units are free, the other pods keep theirs, and nobody lists it."""
    held = kubelet.held()
    assert all(again.admitted for again in kubelet.restart(gone=("c",)))
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.admit("d", Container(limits={GPU: 5})).admitted
    assert not kubelet.admit("e", ONE).admitted
    now = listed(kubelet)
    assert {name: now.get(name) for name in "abc"} == {**held, "c": None}
    assert set(now["d"]["main"][GPU]) >= set(held["c"]["main"][GPU])


def test_a_reboot_before_we_are_back(kubelet: Kubelet, daemon: Ours) -> None:
    """No pod starts without its units; they count once we are back, and all are free."""
    daemon.processes[-1].end()
    again = kubelet.restart(reboot=True)
    assert [(each.admitted, each.reason) for each in again] == [
        (False, "UnexpectedAdmissionError")
    ] * 3
    assert kubelet.counts().allocatable in (0, None)
    assert not listed(kubelet)
    daemon.start()
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.admit("d", Container(limits={GPU: 8})).admitted
    assert kubelet.counts() == Counts(allocatable=8, capacity=8)


def test_a_reboot_after_we_are_back(kubelet: Kubelet, daemon: Ours) -> None:
    """Pods are admitted again with the units they had, and their containers start."""
    held = kubelet.held()
    daemon.processes[-1].end()
    kubelet.restart(reboot=True, readmit=False)
    daemon.start()
    kubelet.wait(allocatable=8, capacity=8)
    assert all(each.admitted for each in kubelet.readmit())
    assert kubelet.held() == held
    for name in "abc":
        visible = kubelet.start_container(name).env["NVIDIA_VISIBLE_DEVICES"].split(",")
        assert tuple(sorted(visible)) == held[name]["main"][GPU]
