"""A GPU breaks and works again: the kubelet counts it out and in, and the pod's status says so."""

from collections.abc import Callable

import pytest

from deviceplugin.simulation.machine_file import made_up_uuid
from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Kubelet
from tests.kubelet.until import until

ROUNDS = 3
ONE = Container(limits={GPU: 1})


@pytest.mark.smoke
def test_a_broken_gpu_is_not_given_out(kubelet: Kubelet, ours: Ours) -> None:
    """Its pod goes on, the seven others are given out, and after a reset it is as before."""
    ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.admit("a", ONE).admitted
    held = kubelet.held()
    (broken,) = held["a"]["main"][GPU]
    ours.happen(xid=48, gpu=_index(broken))
    kubelet.wait(allocatable=7, capacity=8)
    assert broken not in kubelet.devices()
    assert kubelet.held() == held
    kubelet.remove("a")
    assert not kubelet.admit("b", Container(limits={GPU: 8})).admitted
    assert kubelet.admit("c", Container(limits={GPU: 7})).admitted
    ours.happen(reset=_index(broken))
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.admit("d", ONE).devices["main"][GPU] == (broken,)


@pytest.mark.parametrize("restarted", [False, True], ids=["at first", "after a kubelet restart"])
def test_the_status_of_its_pod_says_so(
    kind: str, boot: Callable[..., Kubelet], ours: Ours, *, restarted: bool
) -> None:
    """The pod's status has its id Unhealthy, then Healthy again."""
    # On by default from 1.36 on; ours has no gates.
    gates = {"feature_gates": {"ResourceHealthStatus": True}} if kind == "1.34" else {}
    kubelet = boot(**gates)
    ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.admit("a", ONE).admitted
    (id_,) = kubelet.held()["a"]["main"][GPU]
    if restarted:
        kubelet.restart()
        kubelet.wait(allocatable=8, capacity=8)

    def is_said(health: str) -> bool:
        return until(lambda: kubelet.health("a")["main"][GPU] == {id_: health})

    assert is_said("Healthy")
    ours.happen(xid=48, gpu=_index(id_))
    assert is_said("Unhealthy")
    ours.happen(reset=_index(id_))
    assert is_said("Healthy")


@pytest.mark.figures
def test_how_soon_a_fault_is_counted(
    kubelet: Kubelet, ours: Ours, figure: Callable[[str, float], None]
) -> None:
    """From the driver's event to the kubelet's count: within 50 ms, half of them at least."""
    ours.start(health_poll=0.1)
    kubelet.wait(allocatable=8, capacity=8)
    took = []
    for _ in range(ROUNDS):
        for gpu in range(8):
            happened = ours.happen(xid=48, gpu=gpu)
            took.append((kubelet.wait(allocatable=7 - gpu, capacity=8).at - happened) * 1000)
            figure("driver event to allocatable", took[-1])
        for gpu in range(8):
            ours.happen(reset=gpu)
        kubelet.wait(allocatable=8, capacity=8, seconds=20)
    assert sorted(took)[len(took) // 2] < 50


def _index(id_: str) -> int:
    return [made_up_uuid("h100x8", index) for index in range(8)].index(id_)
