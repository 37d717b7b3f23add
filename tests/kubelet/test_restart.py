"""A kubelet that restarts, a node that reboots: who keeps what, and who is turned away."""

import socket
from pathlib import Path

import pytest

from tests.kubelet.node import Counts, Kubelet, asking
from tests.kubelet.plugin import ScriptedPlugin, gpus
from tests.kubelet.until import until


def identity(file: Path) -> tuple[int, int]:
    """Tells a file from its successor; the inode alone is reused at once on some file systems."""
    found = file.stat()
    return found.st_ino, found.st_ctime_ns


@pytest.mark.smoke
def test_running_pods_stay_without_the_plugin(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """Assignment and answer come from the checkpoint; new pods wait for the plugin."""
    assert kubelet.admit("held", asking(2)).admitted
    edits, held = kubelet.start_container("held"), kubelet.held()
    assert [each.admitted for each in kubelet.restart()] == [True]
    assert kubelet.counts() == Counts(allocatable=0, capacity=0)
    assert not kubelet.admit("early", asking(1)).admitted
    assert kubelet.start_container("held") == edits
    served.listed(kubelet, "b.sock")
    assert kubelet.held()["held"] == held["held"]
    assert kubelet.start_container("held") == edits
    assert len(served.called("Allocate")) == 1
    assert kubelet.admit("late", asking(6)).admitted


def test_sockets_in_its_folder_are_gone_with_the_start(
    kubelet: Kubelet, served: ScriptedPlugin
) -> None:
    """Plugins' sockets are deleted; plain files, folders and what is in them stay."""
    (kubelet.plugin_dir / "kept").touch()
    below = kubelet.plugin_dir / "below"
    below.mkdir()
    with socket.socket(socket.AF_UNIX) as inner:
        inner.bind(str(below / "x.sock"))
    kubelet.restart(readmit=False)
    assert until(lambda: served.open_streams() == 0)
    assert not (kubelet.plugin_dir / "a.sock").exists()
    assert (kubelet.plugin_dir / "kept").exists()
    assert (below / "x.sock").is_socket()


def test_a_socket_bound_while_it_is_down_is_deleted_too(
    kubelet: Kubelet, served: ScriptedPlugin
) -> None:
    """So a plugin binds once the new kubelet.sock accepts, and not before."""
    door = kubelet.plugin_dir / "kubelet.sock"
    before = identity(door)
    served.serve("early.sock")
    kubelet.restart(down=0.2, readmit=False)
    assert identity(door) != before
    assert not (kubelet.plugin_dir / "early.sock").exists()
    served.listed(kubelet, "right.sock")


@pytest.mark.parametrize("back", [False, True], ids=["plugin-away", "plugin-back"])
def test_a_pod_with_a_finished_init_container(
    kubelet: Kubelet, served: ScriptedPlugin, *, back: bool
) -> None:
    """It is turned away for good when it is admitted before the plugin is back."""
    assert kubelet.admit("held", asking(1, name="init", init=True), asking(1)).admitted
    kubelet.restart(readmit=False)
    if back:
        served.listed(kubelet, "b.sock")
    (admission,) = kubelet.readmit()
    assert admission.admitted == back
    assert back or "no healthy devices present" in admission.message


def test_a_pod_whose_device_turned_unhealthy_meanwhile(
    kubelet: Kubelet, served: ScriptedPlugin
) -> None:
    """Its finished init container's device is looked at again, and the pod turned away."""
    assert kubelet.admit("held", asking(1, name="init", init=True), asking(1)).admitted
    kubelet.restart(readmit=False)
    served.devices = gpus(8, unhealthy=[0])
    served.up("b.sock")
    kubelet.wait(allocatable=7, capacity=8)
    (admission,) = kubelet.readmit()
    assert not admission.admitted
    assert "previously allocated devices are no longer healthy" in admission.message


@pytest.mark.parametrize("back", [False, True], ids=["plugin-away", "plugin-back"])
def test_after_a_reboot_nobody_starts_without_a_device(
    kubelet: Kubelet, served: ScriptedPlugin, *, back: bool
) -> None:
    """Nothing runs: every pod needs its devices first, and gets the same ones."""
    for name in "abcd":
        assert kubelet.admit(name, asking(2)).admitted
    held = kubelet.held()
    kubelet.restart(reboot=True, readmit=False)
    assert kubelet.counts() == Counts(allocatable=0, capacity=0)
    if back:
        served.listed(kubelet, "b.sock")
    admissions = kubelet.readmit()
    assert {each.admitted for each in admissions} == {back}
    assert len(admissions) == 4
    if back:
        assert kubelet.held() == held
    else:
        assert {each.reason for each in admissions} == {"UnexpectedAdmissionError"}
        assert kubelet.held() == {}


def test_a_container_that_ended_is_looked_at_again(
    kubelet: Kubelet, served: ScriptedPlugin
) -> None:
    """Between its end and its next start the kubelet restarts: without a plugin the pod fails."""
    del served
    assert kubelet.admit("held", asking(1)).admitted
    kubelet.exit_container("held")
    (admission,) = kubelet.restart()
    assert not admission.admitted


def test_a_pod_deleted_while_the_kubelet_was_down(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """Its devices are free for the next one."""
    assert kubelet.admit("gone", asking(5)).admitted
    assert kubelet.admit("held", asking(3)).admitted
    assert len(kubelet.restart(gone=("gone",))) == 1
    served.listed(kubelet, "b.sock")
    assert kubelet.admit("next", asking(5)).admitted
    assert not kubelet.admit("more", asking(1)).admitted


def test_kubelet_then_plugin(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """Both restart, one after the other, twice: the pod's devices are the same throughout."""
    assert kubelet.admit("held", asking(2)).admitted
    held, edits = kubelet.held(), kubelet.start_container("held")
    last = "a.sock"
    for number in range(2):
        kubelet.restart()
        served.up(f"k{number}.sock")
        kubelet.wait(allocatable=8)
        served.stop(last)
        served.stop(f"k{number}.sock")
        kubelet.wait(allocatable=0, capacity=8)
        last = served.up(f"p{number}.sock")
        kubelet.wait(allocatable=8)
    assert (kubelet.held(), kubelet.start_container("held")) == (held, edits)
    assert len(served.called("Allocate")) == 1
