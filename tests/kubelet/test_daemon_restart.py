"""Kubelet and daemon end and come back under running pods: nothing of a pod changes."""

import signal
from collections.abc import Callable

import pytest

from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Counts, Kubelet
from tests.kubelet.podresources import listed

ONE = Container(limits={GPU: 1})
TWO = Container(limits={GPU: 2})

Ending = Callable[[Kubelet, Ours], None]


def _kubelet(kubelet: Kubelet, ours: Ours) -> None:
    del ours
    assert [each.admitted for each in kubelet.restart()] == [True, True]


def _daemon(number: signal.Signals) -> Ending:
    def end(kubelet: Kubelet, ours: Ours) -> None:
        ours.processes[-1].end(number)
        kubelet.wait(allocatable=0, capacity=8)
        ours.start()

    return end


def _daemon_while_the_kubelet_is_away(kubelet: Kubelet, ours: Ours) -> None:
    ours.processes[-1].end(signal.SIGKILL)
    _kubelet(kubelet, ours)
    ours.start()


def _kubelet_while_the_daemon_starts(kubelet: Kubelet, ours: Ours) -> None:
    ours.processes[-1].end(signal.SIGKILL)
    ours.start()
    _kubelet(kubelet, ours)


def _kubelet_then_daemon(kubelet: Kubelet, ours: Ours) -> None:
    _kubelet(kubelet, ours)
    kubelet.wait(allocatable=8, capacity=8)
    _daemon(signal.SIGTERM)(kubelet, ours)


ENDINGS = [
    pytest.param(_kubelet, id="kubelet", marks=pytest.mark.smoke),
    pytest.param(_daemon(signal.SIGTERM), id="daemon, SIGTERM"),
    pytest.param(_daemon(signal.SIGKILL), id="daemon, SIGKILL", marks=pytest.mark.smoke),
    pytest.param(_daemon_while_the_kubelet_is_away, id="both, kubelet back first"),
    pytest.param(_kubelet_while_the_daemon_starts, id="both, at once"),
    pytest.param(_kubelet_then_daemon, id="kubelet, then daemon"),
]


@pytest.mark.parametrize("end", ENDINGS)
def test_pods_keep_what_they_have(kubelet: Kubelet, ours: Ours, end: Ending) -> None:
    """All units are back, pods hold the same ids, and a container starts with the same edits.

    What is free is still what was free: the rest goes to one more pod, and not one unit more.
    """
    ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.admit("a", ONE).admitted
    assert kubelet.admit("b", TWO).admitted
    held, before = kubelet.held(), [kubelet.start_container(pod) for pod in "ab"]
    assert before[0] != before[1]

    end(kubelet, ours)

    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.held() == held
    assert listed(kubelet) == held
    assert [kubelet.start_container(pod) for pod in "ab"] == before
    assert kubelet.admit("c", Container(limits={GPU: 5})).admitted
    assert not kubelet.admit("d", ONE).admitted
    assert kubelet.counts() == Counts(allocatable=8, capacity=8)


@pytest.mark.smoke
def test_a_pod_gets_a_unit(kubelet: Kubelet, ours: Ours) -> None:
    """A pod holds one id of ours, PodResources names it, and its container sees that GPU only."""
    ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    admission = kubelet.admit("a", ONE)
    assert admission.admitted
    (id_,) = admission.devices["main"][GPU]
    assert id_ in kubelet.devices()
    assert listed(kubelet) == {"a": {"main": {GPU: (id_,)}}}
    assert kubelet.start_container("a").env["NVIDIA_VISIBLE_DEVICES"] == id_


@pytest.mark.parametrize(
    "ready", [pytest.param(True, id="after"), pytest.param(False, id="before")]
)
def test_a_container_that_ended_goes_on_with_its_unit(
    kubelet: Kubelet, ours: Ours, *, ready: bool
) -> None:
    """A container that did not run at the kubelet's restart needs the daemon to be back first."""
    ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.admit("a", ONE).admitted
    held = kubelet.held()
    kubelet.exit_container("a")
    if not ready:
        ours.processes[-1].end()
    kubelet.restart(readmit=False)
    if ready:
        kubelet.wait(allocatable=8, capacity=8)
    (again,) = kubelet.readmit()
    assert again.admitted is ready
    if ready:
        assert kubelet.held() == held
    else:
        assert again.reason == "UnexpectedAdmissionError"
