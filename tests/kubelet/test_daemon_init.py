"""Pods with init containers and sidecars: what is lent must be among what we prefer."""

import pytest

from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Kubelet, asking

SHARES = 4


def _gpus(ids: tuple[str, ...]) -> set[str]:
    return {id_.partition("::")[0] for id_ in ids}


@pytest.mark.smoke
@pytest.mark.parametrize("replicas", [1, SHARES], ids=["whole", "shared"])
def test_an_init_containers_gpu_is_used_again(kubelet: Kubelet, ours: Ours, replicas: int) -> None:
    """The app container has it and another one, on two GPUs also where they are shared."""
    ours.share(replicas)
    ours.start()
    kubelet.wait(allocatable=8 * replicas)
    init = Container(name="init", limits={GPU: 1}, init=True)
    devices = kubelet.admit("a", init, Container(name="app", limits={GPU: 2})).devices
    (lent,) = devices["init"][GPU]
    assert lent in devices["app"][GPU]
    assert len(_gpus(devices["app"][GPU])) == 2
    assert kubelet.admit("rest", asking(8 * replicas - 2)).admitted


def test_a_sidecar_keeps_the_init_containers_gpu(kubelet: Kubelet, ours: Ours) -> None:
    """The app container gets another one, and each start tells each of them its own."""
    ours.start()
    kubelet.wait(allocatable=8)
    init = Container(name="init", limits={GPU: 1}, init=True)
    side = Container(name="side", limits={GPU: 1}, init=True, restartable=True)
    devices = kubelet.admit("a", init, side, Container(name="app", limits={GPU: 1})).devices
    assert devices["side"] == devices["init"]
    assert devices["app"][GPU] != devices["side"][GPU]
    for container in ("side", "app"):
        env = kubelet.start_container("a", container).env
        assert env["NVIDIA_VISIBLE_DEVICES"] == devices[container][GPU][0]
