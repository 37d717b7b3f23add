"""The config is edited while pods hold units: nothing that is held ever leaves the list."""

import signal
from collections.abc import Callable

import pytest

from tests.kubelet import topology
from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Counts, Kubelet
from tests.kubelet.podresources import listed
from tests.kubelet.until import until
from tests.kubelet.watch import Watch

SHARED = "nvidia.com/gpu.shared"
ONE = Container(limits={GPU: 1})

Meanwhile = Callable[[Kubelet, Ours], None]


@pytest.fixture
def aligning(boot: Callable[..., Kubelet]) -> Kubelet:
    """A kubelet that dies when it admits a pod again whose ids are not listed any more."""
    return boot(**topology.settings("best-effort"))


def _nothing(kubelet: Kubelet, ours: Ours) -> None:
    del kubelet, ours


def _kubelet(kubelet: Kubelet, ours: Ours) -> None:
    del ours
    assert all(again.admitted for again in kubelet.restart())


def _kubelet_after_us(kubelet: Kubelet, ours: Ours) -> None:
    """Pods are admitted again once the list is there: this is when the kubelet looks ids up."""
    del ours
    kubelet.restart(readmit=False)
    kubelet.wait(allocatable=16)
    assert all(again.admitted for again in kubelet.readmit())


def _daemon(kubelet: Kubelet, ours: Ours) -> None:
    ours.processes[-1].end(signal.SIGKILL)
    kubelet.wait(allocatable=0)
    ours.start()


def _both(kubelet: Kubelet, ours: Ours) -> None:
    ours.processes[-1].end()
    _kubelet(kubelet, ours)
    ours.start()


RESTARTS = [
    pytest.param(_nothing, id="nothing restarts"),
    pytest.param(_kubelet, id="kubelet, pods first"),
    pytest.param(_kubelet_after_us, id="kubelet, list first", marks=pytest.mark.smoke),
    pytest.param(_daemon, id="daemon"),
    pytest.param(_both, id="both"),
]


def _shares_held(kubelet: Kubelet, ours: Ours) -> None:
    """Let two pods hold whole GPUs and one 28 of their and the others' shares of a quarter."""
    ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.admit("a", ONE).admitted
    assert kubelet.admit("b", ONE).admitted
    with Watch(kubelet) as watch:
        ours.share(4)
        kubelet.wait(allocatable=32, capacity=32)
    assert watch.least() == Counts(allocatable=8, capacity=8)
    assert kubelet.admit("c", Container(limits={GPU: 28})).admitted


@pytest.mark.parametrize("meanwhile", RESTARTS)
def test_fewer_shares_than_pods_hold(aligning: Kubelet, ours: Ours, meanwhile: Meanwhile) -> None:
    """From whole GPUs to quarters to halves: all 30 held ids stay, and go when pods end.

    Under a policy that aligns, a kubelet that admits its pods again dies of an id not listed.
    """
    kubelet = aligning
    _shares_held(kubelet, ours)
    held = kubelet.held()
    with Watch(kubelet) as watch:
        ours.share(2)
        kubelet.wait(allocatable=16, capacity=30)
    assert watch.least() == Counts(allocatable=16, capacity=30)

    meanwhile(kubelet, ours)

    kubelet.wait(allocatable=16, capacity=30)
    assert kubelet.alive()
    assert kubelet.held() == listed(kubelet) == held
    assert not kubelet.admit("d", ONE).admitted
    kubelet.remove("c")
    kubelet.wait(allocatable=16, capacity=16)
    assert kubelet.admit("e", Container(limits={GPU: 14})).admitted
    for pod in "abe":
        kubelet.remove(pod)
    assert until(lambda: all("::" in id_ for id_ in kubelet.devices()))
    kubelet.wait(allocatable=16, capacity=16)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_the_config_changed_while_we_were_away(
    aligning: Kubelet, ours: Ours, end: signal.Signals
) -> None:
    """The next process lists what pods hold of the config before, whatever its own config says."""
    kubelet = aligning
    _shares_held(kubelet, ours)
    held = kubelet.held()
    ours.processes[-1].end(end)
    kubelet.wait(allocatable=0)
    ours.share(2)
    ours.start()
    kubelet.wait(allocatable=16, capacity=30)
    kubelet.restart(readmit=False)
    kubelet.wait(allocatable=16, capacity=30)
    assert all(again.admitted for again in kubelet.readmit())
    assert kubelet.held() == held


def test_a_new_name(kubelet: Kubelet, ours: Ours) -> None:
    """The old name keeps what is held of it; a GPU is never to be had under both.

    The GPU that a pod holds comes under the new name when the pod has ended.
    """
    ours.share(2)
    ours.start()
    kubelet.wait(allocatable=16, capacity=16)
    assert kubelet.admit("a", ONE).admitted
    held = kubelet.held()
    ours.share(2, rename=SHARED)

    def moved() -> bool:
        # The new name first: a GPU that moves between the two looks is seen under none.
        new, old = _gpus(kubelet, SHARED), _gpus(kubelet, GPU)
        assert not new & old
        return len(new) == 7

    assert until(moved)
    kubelet.wait(allocatable=0, capacity=1)
    kubelet.wait(allocatable=14, capacity=14, resource=SHARED)
    assert kubelet.held() == held
    assert not kubelet.admit("b", ONE).admitted
    assert kubelet.admit("c", Container(limits={SHARED: 14})).admitted
    kubelet.remove("a")
    kubelet.wait(allocatable=16, capacity=16, resource=SHARED)
    assert not _gpus(kubelet, GPU)


def _gpus(kubelet: Kubelet, resource: str) -> set[str]:
    return {id_.partition("::")[0] for id_ in kubelet.devices(resource)}
