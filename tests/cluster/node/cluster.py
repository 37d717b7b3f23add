"""The whole cluster: up, down, and what a test asks of it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from tests.cluster.node import (
    certificates,
    cleanup,
    containerd,
    control_plane,
    images,
    kubelet,
    network,
    processes,
    traces,
)
from tests.cluster.node.paths import KUBECONFIG, KUBELET_ROOT, NODE, PROGRAMS, ROOT, STATE, program
from tests.cluster.node.shell import ClusterError, say, wait_for


def up(settings: Mapping[str, object] = kubelet.QUICK) -> float:
    """Start everything with empty state; returns the seconds until the node was ready.

    What was started is taken down again when the rest of it cannot be.

    Raises:
        ClusterError: one is up already, or a program died.

    """
    if STATE.exists():
        raise ClusterError(f"{STATE} is there: run `python -m tests.cluster down` first")
    there = sorted(path.name for path in KUBELET_ROOT.glob("*"))
    if there:
        raise ClusterError(
            f"{KUBELET_ROOT} holds {', '.join(there)}: this machine is a node of another cluster,"
            " or was one: then empty that folder"
        )
    began = time.monotonic()
    before = traces.seen()
    STATE.mkdir(parents=True)
    traces.remember(before)
    try:
        _start(settings)
    except BaseException:
        cleanup.down()
        raise
    seconds = time.monotonic() - began
    say(f"ready in {seconds:.1f} s")
    return seconds


def _start(settings: Mapping[str, object]) -> None:
    network.make()
    containerd.start()
    certificates.make()
    control_plane.start_etcd()
    control_plane.start_apiserver()
    images.load_small()
    control_plane.wait_for_apiserver()
    control_plane.start_watchers()
    kubelet.start(settings)
    names = ("containerd", "kubelet", *control_plane.NAMES)
    processes.wait_alive("the node to be ready", _ready, *names)
    processes.wait_alive("the default service account", _has_account, *names)


def down() -> float:
    """Take everything away; returns the seconds that it took."""
    began = time.monotonic()
    cleanup.down()
    return time.monotonic() - began


def environment() -> dict[str, str]:
    """The environment of a shell that has kubectl and the cluster's address."""
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "KUBECONFIG": str(KUBECONFIG)}


def kubectl(*words: str, stdin: str | None = None) -> str:
    """Run kubectl in the project's root; returns what it printed.

    Raises:
        ClusterError: it failed; the text has what it said.

    """
    ended = subprocess.run(
        [program("kubectl"), *words],
        cwd=ROOT,
        env=environment(),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise ClusterError(f"`kubectl {' '.join(words)}` failed:\n{ended.stderr}{ended.stdout}")
    return ended.stdout


def get(*words: str) -> Any:
    """What `kubectl get … -o json` tells."""
    return json.loads(kubectl("get", *words, "-o", "json"))


def node() -> Any:
    """The Node object."""
    return get("node", NODE)


def restart_kubelet(
    settings: Mapping[str, object] = kubelet.QUICK, *, how: signal.Signals = signal.SIGKILL
) -> None:
    """End the kubelet and start it again; pods go on meanwhile."""
    kubelet.stop(how=how)
    kubelet.start(settings)


def wait(what: str, condition: Any, *, seconds: float = 60) -> None:
    """Wait for a condition of the cluster."""
    wait_for(what, condition, seconds=seconds)


def _ready() -> bool:
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    try:
        return kubectl("get", "node", NODE, "-o", path) == "True"
    except ClusterError:
        return False


def _has_account() -> bool:
    try:
        return bool(kubectl("get", "serviceaccount", "default", "-o", "name"))
    except ClusterError:
        return False
