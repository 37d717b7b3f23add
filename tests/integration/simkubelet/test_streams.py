"""What lists and the end of their streams do to the counts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import Change, ChangeKind, Pod, SimulatedKubelet

GPU = "nvidia.com/gpu"

Line = Callable[..., Any]


def _eight(kubelet: SimulatedKubelet, plugin: Any, name: str = "a.sock") -> None:
    plugin.up(name)
    assert kubelet.wait(lambda: kubelet.allocatable().get(GPU) == 8)


def test_health_flip(kubelet: SimulatedKubelet, plugin: Any, line: Line) -> None:
    """An unhealthy device leaves allocatable and stays in capacity, both ways."""
    _eight(kubelet, plugin)
    plugin.push(line("a", "Unhealthy"), line("b"))
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 1})
    assert kubelet.capacity() == {GPU: 2}
    assert kubelet.devices(GPU) == {"a": "Unhealthy", "b": "Healthy"}
    plugin.push(line("a"), line("b"))
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 2})


@pytest.mark.parametrize("health", ["healthy", "HEALTHY", "", "Fine"])
def test_other_health_words(
    kubelet: SimulatedKubelet, plugin: Any, line: Line, health: str
) -> None:
    """Any text but Healthy is unhealthy."""
    plugin.devices = [line("a", health)]
    plugin.up("a.sock")
    assert kubelet.wait(lambda: kubelet.capacity() == {GPU: 1})
    assert kubelet.allocatable() == {GPU: 0}


@pytest.mark.parametrize(
    ("healths", "counted"),
    [(("Healthy", "Healthy"), (1, 1)), (("Healthy", "Unhealthy"), (1, 2))],
    ids=["same-health", "other-health"],
)
def test_duplicates(
    kubelet: SimulatedKubelet,
    plugin: Any,
    line: Line,
    healths: tuple[str, str],
    counted: tuple[int, int],
) -> None:
    """An id listed twice counts once, or twice where the two disagree on its health."""
    plugin.devices = [line("a", health) for health in healths]
    plugin.up("a.sock")
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: counted[0]})
    assert kubelet.capacity() == {GPU: counted[1]}


def test_empty_list(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """An empty list is legal: 0 of 0, and the stream stays."""
    _eight(kubelet, plugin)
    plugin.push()
    assert kubelet.wait(lambda: kubelet.capacity() == {GPU: 0})
    assert plugin.open_streams() == 1


@pytest.mark.parametrize("how", ["plugin-ends-it", "plugin-stops", "kubelet-cuts-it"])
def test_stream_lost(kubelet: SimulatedKubelet, plugin: Any, how: str) -> None:
    """A stream that ends, however, means 0 of 8, and nobody asks for the list again."""
    _eight(kubelet, plugin)
    match how:
        case "plugin-ends-it":
            plugin.end_streams()
        case "plugin-stops":
            plugin.stop("a.sock")
        case _:
            kubelet.cut_stream(GPU)
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 0})
    assert kubelet.capacity() == {GPU: 8}
    assert kubelet.wait(lambda: plugin.open_streams() == 0)
    admission = kubelet.admit(Pod.asking("late", **{GPU: 1}))
    assert "no healthy devices present" in admission.message
    assert len(plugin.named("list")) == 1


def test_dropped_after_the_grace(boot: Any, era: str, plugin: Any) -> None:
    """After the grace the resource is gone, the node keeps 0, and a Register revives it."""
    now = [0.0]
    kubelet = boot(era=era, clock=lambda: now[0], grace=300.0)
    _eight(kubelet, plugin)
    plugin.stop("a.sock")
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 0})
    now[0] = 300.0
    assert kubelet.capacity() == {GPU: 8}
    now[0] = 300.1
    assert (kubelet.capacity(), kubelet.allocatable()) == ({}, {})
    assert (kubelet.node().capacity, kubelet.node().allocatable) == ({GPU: 0}, {GPU: 0})
    admission = kubelet.admit(Pod.asking("late", **{GPU: 1}))
    assert (admission.admitted, admission.reason) == (False, f"OutOf{GPU}")
    _eight(kubelet, plugin, "b.sock")


def test_list_over_four_mebibytes(kubelet: SimulatedKubelet, plugin: Any, line: Line) -> None:
    """A list over the receive limit ends the stream."""
    _eight(kubelet, plugin)
    plugin.push(*(line(f"{n:07d}-" + "x" * 1000) for n in range(4200)))
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 0})
    assert "RESOURCE_EXHAUSTED" in kubelet.changes[-1].detail


def test_history(kubelet: SimulatedKubelet, plugin: Any, line: Line) -> None:
    """Every list is kept with its time, ids and healthy ids, oldest first."""
    plugin.devices = [line("a"), line("b", "Unhealthy")]
    plugin.up("a.sock")
    assert kubelet.wait(lambda: len(kubelet.history) == 1)
    plugin.push(line("a"), line("b"))
    assert kubelet.wait(lambda: len(kubelet.history) == 2)
    first, second = kubelet.history
    assert (first.resource, first.healthy, first.ids) == (GPU, {"a"}, {"a", "b"})
    assert second.healthy == {"a", "b"}
    assert first.at <= second.at


def test_on_change_is_told_everything_in_order(root: Path, era: str, plugin: Any) -> None:
    """The listener gets what the history has, in its order, and may ask the kubelet back."""
    told: list[Change] = []

    def listen(change: Change) -> None:
        kubelet.capacity()
        told.append(change)

    kubelet = SimulatedKubelet(root, era=era, on_change=listen)
    with kubelet:
        _eight(kubelet, plugin)
        assert kubelet.wait(lambda: ChangeKind.LIST in [change.kind for change in told])
    assert told == kubelet.changes
    assert [told[0].kind, told[-1].kind] == [ChangeKind.STARTED, ChangeKind.STOPPED]


def test_wait_gives_up(kubelet: SimulatedKubelet) -> None:
    """Waiting for what does not come ends with False."""
    assert kubelet.wait(lambda: GPU in kubelet.capacity(), 0.05) is False
