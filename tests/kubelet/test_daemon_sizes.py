"""Long lists: thousands of ids are served, and one that no kubelet could take is never sent."""

from collections.abc import Callable

import pytest

from tests.kubelet import topology
from tests.kubelet.daemon import Ours
from tests.kubelet.node import GPU, Container, Counts, Kubelet

TOO_MANY = 20_000  # of each of eight GPUs: beyond the 4 MiB that a gRPC message may have


@pytest.mark.parametrize("policy", ["none", "best-effort"])
def test_four_thousand_ids(
    kind: str, boot: Callable[..., Kubelet], ours: Ours, policy: str
) -> None:
    """They are listed, preferred and given out, and held over a restart of the kubelet."""
    kubelet = boot(**topology.settings(kind, policy))
    ours.share(500)
    ours.start()
    kubelet.wait(allocatable=4000, capacity=4000)
    admission = kubelet.admit("a", Container(limits={GPU: 4}))
    assert admission.admitted
    ids = admission.devices["main"][GPU]
    assert len({id_.partition("::")[0] for id_ in ids}) == 4
    held = kubelet.held()
    kubelet.restart()
    kubelet.wait(allocatable=4000, capacity=4000)
    assert kubelet.held() == held
    assert kubelet.admit("b", Container(limits={GPU: 400})).admitted


def test_a_list_that_is_too_long(kubelet: Kubelet, ours: Ours) -> None:
    """The entry is unmet, with the numbers; the list before stays, the kubelet is unharmed."""
    ours.share(4)
    daemon = ours.start()
    kubelet.wait(allocatable=32, capacity=32)
    assert kubelet.admit("a", Container(limits={GPU: 1})).admitted
    ours.share(TOO_MANY)
    assert daemon.says("unmet", "would hold 160,000 units", "the kubelet accepts 4,194,304")
    assert kubelet.counts() == Counts(allocatable=32, capacity=32)
    assert kubelet.admit("b", Container(limits={GPU: 31})).admitted
    assert kubelet.alive()
    ours.share(8)
    kubelet.wait(allocatable=64, capacity=64)
