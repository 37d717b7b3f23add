"""What the simulated kubelet checks and does inside Register."""

import threading
import time
from typing import Any

import grpc
import pytest

from deviceplugin.simulation.kubelet import ChangeKind, SimulatedKubelet

GPU = "nvidia.com/gpu"


def test_options_before_answer_then_list(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """The plugin is asked for its options before Register returns, and for its list after."""
    plugin.serve("a.sock")
    assert plugin.register("a.sock") == ""
    assert plugin.calls[0][0] == "options"
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 8})
    assert [name for name, _ in plugin.calls] == ["options", "list"]


def test_list_flows_while_register_waits(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """A Register that waits for its options blocks nobody else's."""
    held = threading.Event()
    plugin.answers["options"] = lambda _: held.wait(5) and plugin.options
    waiting = threading.Thread(target=plugin.up, args=("slow.sock",))
    waiting.start()
    assert kubelet.wait(lambda: bool(plugin.named("options")))
    plugin.answers.clear()
    plugin.up("quick.sock")
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 8})
    held.set()
    waiting.join(5)


def test_wrong_version(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """Another API version is refused by name, before any dial back."""
    plugin.serve("a.sock")
    error = plugin.register("a.sock", version="v1alpha1")
    assert "UNKNOWN" in error
    assert "'v1alpha1'" in error
    assert "v1beta1" in error
    assert plugin.calls == []
    assert kubelet.capacity() == {}


def test_wrong_resource_name(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """A name that is no extended resource is refused."""
    plugin.resource = "kubernetes.io/gpu"
    plugin.serve("a.sock")
    assert "is invalid" in plugin.register("a.sock")
    assert kubelet.capacity() == {}


def test_no_socket(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """An endpoint nobody listens on is refused after the dial's time limit."""
    assert "failed to dial device plugin" in plugin.register("nobody.sock")
    assert [change.kind for change in kubelet.changes][-1] is ChangeKind.REFUSED


def test_options_fail(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """The options' error is passed on, and the list is never asked for."""

    def fail(_: object) -> None:
        raise RuntimeError("no options today")

    plugin.answers["options"] = fail
    plugin.serve("a.sock")
    assert "no options today" in plugin.register("a.sock")
    assert [name for name, _ in plugin.calls] == ["options"]
    assert kubelet.capacity() == {}


def test_options_within_our_deadline(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """Options that never come cost the caller its own deadline, and nothing is registered."""
    held = threading.Event()
    plugin.answers["options"] = lambda _: held.wait(5) and plugin.options
    plugin.serve("a.sock")
    error = plugin.register("a.sock", timeout=0.3)
    assert error.startswith(("DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN"))
    assert kubelet.wait(lambda: kubelet.changes[-1].kind is ChangeKind.REFUSED)
    held.set()
    assert plugin.named("list") == []


def test_first_list_fails(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """A first list that fails leaves capacity 0 and no allocatable, and is not tried again."""

    def fail(_: object) -> None:
        raise RuntimeError("no list today")

    plugin.answers["list"] = fail
    plugin.up("a.sock")
    assert kubelet.wait(lambda: kubelet.changes[-1].kind is ChangeKind.STREAM_ENDED)
    assert (kubelet.capacity(), kubelet.allocatable()) == ({GPU: 0}, {})
    assert len(plugin.named("list")) == 1


def test_refusals_on_purpose(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """A test may have the next Registers refused with a text of its own."""
    kubelet.refuse_registrations(2, "not now")
    plugin.serve("a.sock")
    assert [plugin.register("a.sock") for _ in range(3)] == ["UNKNOWN: not now"] * 2 + [""]


def test_endpoint_in_a_subfolder(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """The endpoint is joined to the plugin folder, sub-folders included."""
    (kubelet.plugin_dir / "mine").mkdir()
    plugin.up("mine/a.sock")
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 8})


@pytest.mark.parametrize("seconds", [0.05, 5.0], ids=["cut-off", "waits"])
def test_dead_kubelet(kubelet: SimulatedKubelet, plugin: Any, seconds: float) -> None:
    """A dead kubelet's socket file stays, and refuses connections."""
    kubelet.stop()
    assert (kubelet.plugin_dir / "kubelet.sock").is_socket()
    plugin.serve("a.sock")
    error = plugin.register("a.sock", timeout=seconds)
    assert error.startswith((grpc.StatusCode.UNAVAILABLE.name, "DEADLINE_EXCEEDED"))


def test_death_during_a_dial_back(boot: Any, plugin: Any) -> None:
    """A kubelet that dies while it dials a plugin back does not wait for the dial to end."""
    kubelet = boot(dial_seconds=30.0)
    waiting = threading.Thread(target=plugin.register, args=("nobody.sock",))
    waiting.start()
    assert kubelet.wait(lambda: bool(kubelet._process and kubelet._process.manager._plugins))
    began = time.monotonic()
    kubelet.stop()
    waiting.join(5)
    assert time.monotonic() - began < 5
    assert kubelet.wait(
        lambda: not any(each.name.startswith("kubelet-register") for each in threading.enumerate())
    )
