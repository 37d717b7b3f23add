"""What a kubelet's death and return do to sockets, counts and pods."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import (
    ChangeKind,
    Container,
    KubeletCrashedError,
    Pod,
    SimulatedKubelet,
)

GPU = "nvidia.com/gpu"

Boot = Callable[..., SimulatedKubelet]


def _up(kubelet: SimulatedKubelet, plugin: Any, name: str) -> None:
    plugin.up(name)
    assert kubelet.wait(lambda: kubelet.allocatable().get(GPU) == len(plugin.devices))


def _gpus(name: str, count: int = 1) -> Pod:
    return Pod.asking(name, **{GPU: count})


def test_start_wipes_sockets_only(boot: Boot, root: Any) -> None:
    """Sockets directly in the folder go; plain files and sub-folders with sockets stay."""
    folder = root / "device-plugins"
    (folder / "mine").mkdir(parents=True)
    (folder / ".plugin.lock").write_text("1")
    for path in (folder / "dead.sock", folder / "mine" / "live.sock"):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    kubelet = boot()
    assert sorted(path.name for path in folder.iterdir()) == [
        ".plugin.lock",
        "kubelet.sock",
        "mine",
    ]
    assert (folder / "mine" / "live.sock").is_socket()
    kubelet.stop(remove_sockets=True)
    assert not (folder / "kubelet.sock").exists()


def test_restart_wipes_live_sockets(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """The socket of a plugin that lives is deleted too, and its stream breaks."""
    _up(kubelet, plugin, "a.sock")
    before = (kubelet.plugin_dir / "kubelet.sock").stat()
    kubelet.restart()
    after = (kubelet.plugin_dir / "kubelet.sock").stat()
    assert not (kubelet.plugin_dir / "a.sock").exists()
    assert kubelet.wait(lambda: plugin.open_streams() == 0)
    assert (before.st_ino, before.st_ctime_ns) != (after.st_ino, after.st_ctime_ns)


def test_death_leaves_the_socket_untouched(kubelet: SimulatedKubelet) -> None:
    """A dying kubelet does not touch its socket file; nobody is told through the folder."""
    path = kubelet.plugin_dir / "kubelet.sock"
    before = path.stat()
    kubelet.stop()
    after = path.stat()
    assert (before.st_ino, before.st_ctime_ns) == (after.st_ino, after.st_ctime_ns)
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(str(path))


def test_known_resources_come_back_with_zero(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """Until its plugin is back a known resource has 0 of 0."""
    _up(kubelet, plugin, "a.sock")
    kubelet.restart()
    assert (kubelet.capacity(), kubelet.allocatable()) == ({GPU: 0}, {GPU: 0})
    _up(kubelet, plugin, "b.sock")


def test_running_pod_passes(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """A running pod is admitted from the checkpoint, and its start answer is the same."""
    _up(kubelet, plugin, "a.sock")
    before = kubelet.admit(_gpus("a", 2))
    (again,) = kubelet.restart()
    assert (again.admitted, again.devices, again.edits) == (True, before.devices, before.edits)
    assert kubelet.start_container("a") == before.edits["main"]
    assert len(plugin.named("allocate")) == 1
    _up(kubelet, plugin, "b.sock")
    assert "Available: 6" in kubelet.admit(_gpus("b", 7)).message


def test_another_kubelet_over_the_same_folder(boot: Boot, era: str, plugin: Any) -> None:
    """The checkpoint is all that is needed: holders that no longer exist lose their devices."""
    first = boot(era=era)
    _up(first, plugin, "a.sock")
    first.admit(_gpus("gone", 8))
    first.stop()
    second = boot(era=era)
    assert second.capacity() == {GPU: 0}
    _up(second, plugin, "b.sock")
    assert second.admit(_gpus("new", 8)).admitted


def test_broken_checkpoint(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """Half a checkpoint counts as none."""
    _up(kubelet, plugin, "a.sock")
    kubelet.stop()
    (kubelet.plugin_dir / "kubelet_internal_checkpoint").write_text('{"resources": ["nvi')
    kubelet.start()
    assert kubelet.capacity() == {}


def _with_init() -> Pod:
    init = Container(name="init", limits={GPU: 1}, init=True)
    return Pod(name="a", containers=(init, Container(name="app", limits={GPU: 1})))


def test_finished_init_container_fails_its_pod(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """While the plugin is not back, a finished init container that holds a device is fatal."""
    _up(kubelet, plugin, "a.sock")
    assert kubelet.admit(_with_init()).admitted
    (again,) = kubelet.restart()
    assert (again.admitted, again.reason) == (False, "UnexpectedAdmissionError")
    assert "no healthy devices present" in again.message
    assert kubelet.pods() == {}


@pytest.mark.parametrize("healthy", [True, False], ids=["healthy", "unhealthy"])
def test_finished_init_container_with_the_plugin_back(
    kubelet: SimulatedKubelet, plugin: Any, line: Callable[..., Any], *, healthy: bool
) -> None:
    """With the plugin back first it passes, unless its device is unhealthy now."""
    _up(kubelet, plugin, "a.sock")
    (id_,) = kubelet.admit(_with_init()).devices["init"][GPU]
    kubelet.restart(readmit=False)
    others = [each for each in plugin.devices if id_ != each.ID]
    plugin.devices = [line(id_, "Healthy" if healthy else "Unhealthy"), *others]
    plugin.up("b.sock")
    assert kubelet.wait(lambda: kubelet.capacity() == {GPU: 8})
    (again,) = kubelet.readmit()
    assert again.admitted is healthy
    assert again.message == "" or "no longer healthy" in again.message


def test_exited_container_is_checked(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """A container that does not run at the restart is checked like a new one."""
    _up(kubelet, plugin, "a.sock")
    kubelet.admit(_gpus("a"))
    kubelet.exit_container("a")
    (again,) = kubelet.restart()
    assert not again.admitted


@pytest.mark.parametrize("back", [True, False], ids=["plugin-back", "plugin-away"])
def test_reboot(kubelet: SimulatedKubelet, plugin: Any, *, back: bool) -> None:
    """After a reboot nothing runs: pods are rejected unless the plugin is back first."""
    _up(kubelet, plugin, "a.sock")
    before = kubelet.admit(_gpus("a", 3))
    kubelet.restart(reboot=True, readmit=False)
    if back:
        _up(kubelet, plugin, "b.sock")
    (again,) = kubelet.readmit()
    assert again.admitted is back
    assert again.devices == (before.devices if back else {})


def test_pod_deleted_while_down(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """Devices of a pod that was deleted while the kubelet was down are free."""
    _up(kubelet, plugin, "a.sock")
    kubelet.admit(_gpus("a", 8))
    kubelet.stop()
    kubelet.remove("a")
    assert kubelet.restart() == []
    _up(kubelet, plugin, "b.sock")
    assert kubelet.admit(_gpus("b", 8)).admitted


def test_readmission_order_is_random(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """Pods come back in another order than they came."""
    _up(kubelet, plugin, "a.sock")
    names = [f"p{n}" for n in range(6)]
    for name in names:
        kubelet.admit(_gpus(name))
    orders = {tuple(each.pod.name for each in kubelet.restart()) for _ in range(4)}
    assert len(orders) > 1
    assert all(sorted(order) == names for order in orders)


@pytest.mark.parametrize(
    ("policy", "dies"), [("best-effort", True), ("none", False)], ids=["hints", "no-hints"]
)
def test_unlisted_held_id(
    boot: Boot, era: str, plugin: Any, line: Callable[..., Any], policy: str, *, dies: bool
) -> None:
    """Under a NUMA policy a pod whose id is not listed any more kills the kubelet."""
    kubelet = boot(era=era, policy=policy)
    plugin.devices = [line(f"gpu-{n}", "Healthy", n % 2) for n in range(4)]
    _up(kubelet, plugin, "a.sock")
    kubelet.admit(_gpus("a", 4))
    kubelet.restart(readmit=False)
    plugin.devices = plugin.devices[1:]
    _up(kubelet, plugin, "b.sock")
    if dies:
        with pytest.raises(KubeletCrashedError, match="gpu-0"):
            kubelet.readmit()
        assert kubelet.changes[-1].kind is ChangeKind.CRASHED
    else:
        assert kubelet.readmit()[0].admitted


@pytest.mark.parametrize("how", ["unhealthy", "before-the-plugin"])
def test_unlisted_held_id_safe_ways(
    boot: Boot, plugin: Any, line: Callable[..., Any], how: str
) -> None:
    """Listed as Unhealthy, or admitted before the plugin is back, nobody dies."""
    kubelet = boot(policy="best-effort")
    plugin.devices = [line(f"gpu-{n}", "Healthy", 0) for n in range(2)]
    _up(kubelet, plugin, "a.sock")
    kubelet.admit(_gpus("a", 2))
    kubelet.restart(readmit=False)
    if how == "unhealthy":
        plugin.devices = [line("gpu-0", "Unhealthy", 0), plugin.devices[1]]
        plugin.up("b.sock")
        assert kubelet.wait(lambda: kubelet.capacity() == {GPU: 2})
    assert kubelet.readmit()[0].admitted


def test_many_restarts(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """Any number of restarts leaves one socket and no threads behind."""
    _up(kubelet, plugin, "a.sock")
    for _ in range(30):
        kubelet.restart()
    assert [path.name for path in kubelet.plugin_dir.glob("*.sock")] == ["kubelet.sock"]
    _up(kubelet, plugin, "b.sock")
