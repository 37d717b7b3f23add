"""The five minutes after which a kubelet forgets a resource that no plugin serves any more."""

import time
from collections.abc import Callable

import pytest

from tests.kubelet.node import GPU, Container, Counts, Kubelet
from tests.kubelet.plugin import ScriptedPlugin

_GRACE = 300.0

Ending = Callable[[ScriptedPlugin], None]


class _Clock:
    """A simulated kubelet's, which is moved; a real one's can only be waited for."""

    def __init__(self, *, simulated: bool) -> None:
        self.simulated = simulated
        self.moved = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.moved

    def pass_the_grace(self) -> float:
        """Go to a second before its end, if that can be; how long the rest may take, in seconds."""
        if not self.simulated:
            return _GRACE + 20
        self.moved += _GRACE - 1
        return 10.0


@pytest.mark.grace
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda plugin: plugin.end_streams("a.sock"), id="the stream ends"),
        pytest.param(lambda plugin: plugin.stop("a.sock"), id="the plugin stops"),
    ],
)
def test_a_lost_resource_is_forgotten_after_the_grace(
    kind: str, boot: Callable[..., Kubelet], plugin: Callable[[], ScriptedPlugin], end: Ending
) -> None:
    """It counts 0 at once, is not asked for again, is gone after 300 s, and a Register revives it.

    The Node object keeps it with zeros; admission then names the resource that is out.
    """
    clock = _Clock(simulated=kind.startswith("simulated-"))
    kubelet = boot(clock=clock) if clock.simulated else boot()
    gpu = plugin()
    gpu.up("a.sock")
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.on_node() == Counts(allocatable=8, capacity=8)

    end(gpu)
    lost = kubelet.wait(allocatable=0, capacity=8, seconds=2).at
    assert kubelet.on_node() == Counts(allocatable=0, capacity=8)
    refused = kubelet.admit("at once", Container(limits={GPU: 1}))
    assert (refused.admitted, refused.reason) == (False, "UnexpectedAdmissionError")

    forgotten = kubelet.wait(allocatable=-1, capacity=-1, seconds=clock.pass_the_grace()).at
    assert forgotten + clock.moved - lost == pytest.approx(_GRACE, abs=0.9)
    assert len(gpu.called("ListAndWatch")) == 1
    assert kubelet.on_node() == Counts(allocatable=0, capacity=0)
    refused = kubelet.admit("later", Container(limits={GPU: 1}))
    assert (refused.admitted, refused.reason) == (False, f"OutOf{GPU}")

    gpu.up("b.sock")
    kubelet.wait(allocatable=8, capacity=8)
    assert kubelet.admit("after", Container(limits={GPU: 1})).admitted
