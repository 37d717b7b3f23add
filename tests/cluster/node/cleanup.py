"""Takes the cluster away: processes, pods, mounts, cgroups, network, state."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.node import containerd, control_plane, kubelet, network, processes, traces
from tests.cluster.node.paths import CONTAINERD_SOCKET, DAEMON_STATE, KUBELET_ROOT, STATE, program
from tests.cluster.node.shell import say, succeeds, wait_for

_CGROUPS = Path("/sys/fs/cgroup")


def down() -> None:
    """Leave nothing behind; does no harm when nothing is up, or when half of it is.

    Raises:
        ClusterError: something is left; the text lists it.

    """
    if not STATE.exists():
        return
    before = traces.before()
    kubelet.stop()
    for name in ("kube-proxy", "kube-scheduler", "kube-controller-manager"):
        processes.stop(name)
    _remove_pods()
    # The API server before etcd: without it, it does not end by itself.
    for name in ("containerd", *reversed(control_plane.NAMES)):
        processes.stop(name)
    _kill_leftovers()
    for point in _mounts():
        _ = succeeds("umount", point) or succeeds("umount", "--lazy", point)
    _remove_cgroups()
    network.remove()
    for folder in (KUBELET_ROOT, DAEMON_STATE):
        _empty(folder)
    if before is not None:
        traces.remove_files(before)
    shutil.rmtree(STATE, ignore_errors=True)
    if before is not None:
        traces.check(before)


def _remove_pods() -> None:
    """Have containerd remove every pod, once no kubelet can bring it back.

    After a killed run containerd itself is gone; it is started again for this.
    """
    if processes.record_of("containerd") is None:
        return
    if processes.pid_of("containerd") is None:
        processes.again("containerd")
        containerd.wait()
    if not succeeds(program("cri-purge"), CONTAINERD_SOCKET):
        say("containerd did not remove every pod: killing what is left")


def _kill_leftovers() -> None:
    left = {*_in_pods(), *_shims()}
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    wait_for("killed pods to be gone", lambda: not any(_in_pods()), seconds=10)


def _pod_cgroups() -> list[Path]:
    """The pods' cgroup in each hierarchy: several with version 1, one with version 2."""
    found = [*_CGROUPS.glob("*/kubepods"), _CGROUPS / "kubepods"]
    return [folder for folder in found if folder.is_dir()]


def _in_pods() -> Iterator[int]:
    for root in _pod_cgroups():
        for procs in root.glob("**/cgroup.procs"):
            yield from map(int, procs.read_text().split())


def _shims() -> Iterator[int]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_text().split("\0")
        except OSError:
            continue
        if "shim" in words[0] and str(CONTAINERD_SOCKET) in words:
            yield int(file.parent.name)


def _mounts() -> list[str]:
    """Mount points below our folders, innermost first."""
    ours = (f"{STATE}/", f"{KUBELET_ROOT}/")
    return [point for point in traces.mounts() if f"{point}/".startswith(ours)]


def _remove_cgroups() -> None:
    for root in _pod_cgroups():
        for folder, _, _ in os.walk(root, topdown=False):
            try:
                Path(folder).rmdir()
            except OSError as error:
                say(f"left {folder}: {error.strerror}")


def _empty(folder: Path) -> None:
    """Remove what is in a folder; whether the folder goes, too, is for the traces to say."""
    for entry in folder.glob("*"):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
