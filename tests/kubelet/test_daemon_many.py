"""Lists as long as the kubelet takes them, and one that is longer."""

import pytest

from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Counts, Kubelet

EACH = 500
ALL = 8 * EACH
TOO_MANY = 10_000
FITS = ALL // 2
"""Of the shares, what the first pod asks for."""


@pytest.mark.smoke
def test_four_thousand_shares(kubelet: Kubelet, ours: Ours) -> None:
    """All are served, spread over the GPUs as preferred, handed out once, and kept."""
    ours.share(EACH)
    ours.start()
    kubelet.wait(allocatable=ALL, capacity=ALL)
    first = kubelet.admit("a", Container(limits={GPU: FITS}))
    assert first.admitted
    taken = first.devices["main"][GPU]
    assert _by_gpu(taken) == [FITS // 8] * 8
    assert kubelet.admit("b", Container(limits={GPU: ALL - FITS})).admitted
    assert not kubelet.admit("c", Container(limits={GPU: 1})).admitted
    kubelet.remove("b")
    assert all(again.admitted for again in kubelet.restart())
    kubelet.wait(allocatable=ALL, capacity=ALL)
    assert kubelet.held() == {"a": {"main": {GPU: taken}}}


def test_a_list_that_no_message_can_carry(kubelet: Kubelet, ours: Ours) -> None:
    """The edit is not followed, the log has the arithmetic, and what was served goes on."""
    ours.share(4)
    daemon = ours.start()
    kubelet.wait(allocatable=32, capacity=32)
    assert kubelet.admit("a", Container(limits={GPU: 1})).admitted
    held = kubelet.held()
    ours.share(TOO_MANY)
    assert daemon.says("its list would hold 80,000 units", "the kubelet accepts 4,194,304")
    assert kubelet.admit("b", Container(limits={GPU: 31})).admitted
    assert kubelet.counts() == Counts(allocatable=32, capacity=32)
    assert kubelet.alive()
    kubelet.remove("b")
    ours.share(EACH)
    kubelet.wait(allocatable=ALL, capacity=ALL)
    assert kubelet.held() == held


def test_such_a_list_from_the_start(kubelet: Kubelet, ours: Ours) -> None:
    """With no plan before it, the GPUs are served unshared."""
    ours.share(TOO_MANY)
    daemon = ours.start()
    kubelet.wait(allocatable=8, capacity=8)
    assert daemon.says("its list would hold 80,000 units")
    assert kubelet.admit("a", Container(limits={GPU: 8})).admitted


def _by_gpu(ids: tuple[str, ...]) -> list[int]:
    gpus = [id_.partition("::")[0] for id_ in ids]
    return sorted(gpus.count(gpu) for gpu in set(gpus))
