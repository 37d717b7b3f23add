"""A cluster that is gone has left nothing; `down` itself looks, also after all other tests."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cluster import pods
from tests.cluster.node import cluster, processes, traces
from tests.cluster.node.paths import ROOT, STATE
from tests.cluster.node.shell import ClusterError, run, wait_for

LINK = "dpleft"
# As at a terminal: what CI starts in the background has SIGINT ignored.
STARTING = """
import signal
from tests.cluster.node import cluster
signal.signal(signal.SIGINT, signal.default_int_handler)
cluster.up()
"""


@pytest.fixture
def link() -> Iterator[str]:
    """A network device, as a forgotten one would be."""
    run("ip", "link", "add", LINK, "type", "bridge")
    yield f"link {LINK}"
    run("ip", "link", "delete", LINK)


def test_a_killed_cluster_can_be_taken_away(alone: None) -> None:
    """After SIGKILL for every program, under a running pod, `down` leaves nothing."""
    del alone
    before = traces.seen()
    cluster.up()
    _run("orphan")
    for name in processes.names():
        processes.stop(name, how=signal.SIGKILL)
    with pytest.raises(ClusterError, match=r"tests\.cluster down"):
        cluster.up()
    cluster.down()
    assert traces.seen() <= before


def test_an_interrupted_start_is_taken_back(alone: None) -> None:
    """Ctrl-C while the cluster comes up leaves nothing."""
    del alone
    before = traces.seen()
    with subprocess.Popen([sys.executable, "-c", STARTING], cwd=ROOT, stderr=subprocess.PIPE) as up:
        wait_for("half a cluster", lambda: processes.pid_of("kube-apiserver"))
        os.kill(up.pid, signal.SIGINT)
        said = up.communicate()[1]
    assert b"KeyboardInterrupt" in said
    assert not STATE.exists()
    assert traces.seen() <= before


def test_what_is_left_is_named(alone: None, request: pytest.FixtureRequest) -> None:
    """`down` fails when anything is there that was not there before `up`."""
    del alone
    cluster.up()
    left = request.getfixturevalue("link")
    with pytest.raises(ClusterError, match=f"left behind:\n{left}"):
        cluster.down()


def _run(name: str) -> None:
    pod = pods.manifest(name)
    del pod["spec"]["containers"][0]["resources"]
    pods.create(pod)
    cluster.wait("the pod to run", lambda: pods.phase(name) == "Running")
