"""Two registrations of one resource: each era's rules, traps included."""

from typing import Any

import pytest

from deviceplugin.simulation.kubelet import ChangeKind, Pod, SimulatedKubelet

GPU = "nvidia.com/gpu"


def _allocatable(kubelet: SimulatedKubelet, count: int) -> bool:
    return kubelet.wait(lambda: kubelet.allocatable().get(GPU) == count)


def _lists(kubelet: SimulatedKubelet, count: int) -> bool:
    return kubelet.wait(lambda: len(kubelet.history) == count)


def _overlap(kubelet: SimulatedKubelet, plugin: Any) -> None:
    plugin.up("a.sock")
    assert _lists(kubelet, 1)
    plugin.up("b.sock")
    assert _lists(kubelet, 2)
    assert plugin.open_streams() == 2


def _ends(kubelet: SimulatedKubelet, count: int = 1) -> bool:
    def seen() -> bool:
        kinds = [change.kind for change in kubelet.changes]
        return kinds.count(ChangeKind.STREAM_ENDED) >= count

    return kubelet.wait(seen)


def test_overlap_loses_the_new_stream_up_to_1_36(boot: Any, plugin: Any) -> None:
    """Up to 1.36 the end of the old stream cuts the new one off."""
    kubelet = boot(era="1.36")
    _overlap(kubelet, plugin)
    plugin.end_streams("a.sock")
    assert _allocatable(kubelet, 0)
    assert kubelet.wait(lambda: plugin.open_streams() == 0)


def test_overlap_newer_ends_first_up_to_1_36(boot: Any, plugin: Any) -> None:
    """Up to 1.36 the end of the new stream means 0, though the first lives on."""
    kubelet = boot(era="1.36")
    _overlap(kubelet, plugin)
    plugin.end_streams("b.sock")
    assert _allocatable(kubelet, 0)
    assert plugin.open_streams("a.sock") == 1


@pytest.mark.parametrize(("first", "second"), [("a.sock", "b.sock"), ("b.sock", "a.sock")])
def test_overlap_is_safe_from_1_37(boot: Any, plugin: Any, first: str, second: str) -> None:
    """From 1.37 whichever of two streams ends, the other is unharmed and serves."""
    kubelet = boot(era="1.37")
    _overlap(kubelet, plugin)
    plugin.stop(first)
    assert _ends(kubelet)
    assert kubelet.allocatable() == {GPU: 8}
    assert kubelet.admit(Pod.asking("a", **{GPU: 1})).admitted
    assert plugin.open_streams(second) == 1
    plugin.stop(second)
    assert _allocatable(kubelet, 0)


def test_newest_serves(kubelet: SimulatedKubelet, plugin: Any, root: Any) -> None:
    """Of two that are there, the last registered is asked to allocate."""
    plugin.up("a.sock")
    assert _lists(kubelet, 1)
    other = type(plugin)(root / "device-plugins")
    other.up("b.sock")
    assert _lists(kubelet, 2)
    kubelet.admit(Pod.asking("a", **{GPU: 1}))
    assert (len(plugin.named("allocate")), len(other.named("allocate"))) == (0, 1)
    other.close()


def test_last_message_wins(kubelet: SimulatedKubelet, plugin: Any, root: Any, line: Any) -> None:
    """Two live instances with different lists replace each other's set."""
    plugin.up("a.sock")
    assert _lists(kubelet, 1)
    other = type(plugin)(root / "device-plugins")
    other.devices = [line("x")]
    other.up("b.sock")
    assert _allocatable(kubelet, 1)
    plugin.push(line("y"), line("z"))
    assert _allocatable(kubelet, 2)
    assert set(kubelet.devices(GPU)) == {"y", "z"}
    other.close()


def test_late_end_wipes(boot: Any, plugin: Any) -> None:
    """Up to 1.36 a Register before the old end is handled is wiped by it."""
    kubelet = boot(era="1.36", disconnect_delay=1.0)
    plugin.up("a.sock")
    assert _lists(kubelet, 1)
    plugin.stop("a.sock")
    plugin.up("b.sock")
    assert _lists(kubelet, 2)
    assert _allocatable(kubelet, 0)
    assert kubelet.wait(lambda: plugin.open_streams() == 0)


def test_late_end_harms_nobody_who_waited(boot: Any, plugin: Any) -> None:
    """Up to 1.36 a Register after the old end was handled is safe."""
    kubelet = boot(era="1.36", disconnect_delay=0.5)
    plugin.up("a.sock")
    assert _lists(kubelet, 1)
    plugin.stop("a.sock")
    assert _allocatable(kubelet, 0)
    plugin.up("b.sock")
    assert _allocatable(kubelet, 8)
    assert not kubelet.wait(lambda: kubelet.allocatable()[GPU] != 8, 0.2)


def test_late_end_deaf(boot: Any, plugin: Any) -> None:
    """A deaf registration looks right, and its later death is never noticed."""
    kubelet = boot(era="1.36", disconnect_delay=0.5, late_end="deaf")
    plugin.up("a.sock")
    assert _lists(kubelet, 1)
    plugin.stop("a.sock")
    plugin.up("b.sock")
    assert _ends(kubelet)
    assert kubelet.admit(Pod.asking("a", **{GPU: 1})).admitted
    plugin.stop("b.sock")
    assert _ends(kubelet, 2)
    assert kubelet.allocatable() == {GPU: 8}


def test_late_end_broken(boot: Any, plugin: Any) -> None:
    """A broken registration counts right with an open stream, and every admission fails."""
    kubelet = boot(era="1.36", disconnect_delay=0.5, late_end="broken")
    plugin.up("a.sock")
    assert _lists(kubelet, 1)
    plugin.stop("a.sock")
    plugin.up("b.sock")
    assert _ends(kubelet)
    assert (kubelet.allocatable(), plugin.open_streams()) == ({GPU: 8}, 1)
    assert "has been stopped" in kubelet.admit(Pod.asking("a", **{GPU: 1})).message


def test_same_path_is_taken_up_to_1_36(boot: Any, plugin: Any) -> None:
    """Up to 1.36 a live path may register again; the first end wipes all, a Register heals."""
    kubelet = boot(era="1.36")
    plugin.up("a.sock")
    assert _lists(kubelet, 1)
    assert plugin.register("a.sock") == ""
    assert _lists(kubelet, 2)
    plugin.end_streams("a.sock")
    assert _allocatable(kubelet, 0)
    assert plugin.register("a.sock") == ""
    assert _allocatable(kubelet, 8)


def test_same_path_wedges_from_1_37(boot: Any, plugin: Any) -> None:
    """From 1.37 a live path is refused, and from then on no end is noticed until a restart.

    1. The refusal leaves the incumbent working. 2. Its end is not noticed; with the
    server up, pods are admitted without a stream. 3. The path stays refused. 4. Without
    the server, admission fails. 5. A new path works; its end is hidden too. 6. A
    restart heals.
    """
    kubelet = boot(era="1.37")
    plugin.up("a.sock")
    assert _lists(kubelet, 1)
    assert "already connected" in plugin.register("a.sock")
    assert kubelet.admit(Pod.asking("one", **{GPU: 1})).admitted
    plugin.end_streams()
    assert _ends(kubelet)
    assert kubelet.allocatable() == {GPU: 8}
    assert kubelet.admit(Pod.asking("two", **{GPU: 1})).admitted
    assert "already connected" in plugin.register("a.sock")
    plugin.stop("a.sock")
    assert "UNAVAILABLE" in kubelet.admit(Pod.asking("three", **{GPU: 1})).message
    plugin.up("b.sock")
    assert kubelet.admit(Pod.asking("four", **{GPU: 1})).admitted
    plugin.stop("b.sock")
    assert _ends(kubelet, 2)
    assert kubelet.allocatable() == {GPU: 8}
    kubelet.restart()
    plugin.up("a.sock")
    assert _allocatable(kubelet, 8)


def test_ended_path_may_come_back(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """A path whose end was noticed may register again, on both eras."""
    plugin.up("a.sock")
    assert _allocatable(kubelet, 8)
    plugin.stop("a.sock")
    assert _allocatable(kubelet, 0)
    plugin.up("a.sock")
    assert _allocatable(kubelet, 8)


def test_failed_register_beside_an_incumbent(boot: Any, era: str, plugin: Any) -> None:
    """A newcomer that fails its options harms no counts.

    Up to 1.36 it leaves the incumbent unwatched all the same: its end goes unnoticed.
    """
    kubelet = boot(era=era)
    plugin.up("a.sock")
    assert _lists(kubelet, 1)
    assert "failed to dial" in plugin.register("nobody.sock")
    assert kubelet.admit(Pod.asking("a", **{GPU: 1})).admitted
    plugin.stop("a.sock")
    assert _ends(kubelet)
    assert kubelet.allocatable() == {GPU: 8 if era == "1.36" else 0}
