"""Kubelet and daemon end and come back, under running pods."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster import pods, product, watching
from tests.cluster.conftest import Figures
from tests.cluster.node import cluster
from tests.cluster.node.cluster import kubectl

HELD = ("held-0", "held-1")


@pytest.fixture
def gpus(deployed: None) -> Iterator[set[str]]:
    """Two pods with a GPU each, untouched at the end; gives the GPUs."""
    del deployed
    with pods.running(*HELD):
        before = pods.lives(*HELD)
        yield {pods.gpu_of(name) for name in HELD}
        assert pods.lives(*HELD) == before


def test_the_kubelet_is_killed(gpus: set[str], figure: Figures) -> None:
    """Pods and daemon go on, the node offers all again, a new pod gets a free GPU."""
    before, restarts = product.identity(), product.metric("kubelet_restarts_total")
    with watching.offers() as seen:
        began = time.monotonic()
        cluster.restart_kubelet(how=signal.SIGKILL)
        cluster.wait(
            "the daemon to see the new kubelet",
            product.soon(lambda: product.metric("kubelet_restarts_total") > restarts),
        )
        product.offers(8)
        _gets_a_free_one(gpus)
        figure("kubelet killed → a new pod with a GPU runs", f"{time.monotonic() - began:.1f} s")
    figure("kubelet killed: dip of allocatable", seen.dip(8))
    assert product.identity() == before


def _delete() -> None:
    kubectl(*product.NAMESPACE, "delete", "pod", product.pod()["metadata"]["name"])


def _roll() -> None:
    kubectl(*product.NAMESPACE, "rollout", "restart", product.DAEMONSET)
    kubectl(*product.NAMESPACE, "rollout", "status", product.DAEMONSET, "--timeout=60s")


def _kill() -> None:
    container = product.identity()[1].rpartition("/")[2]
    # From the node: inside its container it is process 1, which the kernel spares.
    for file in Path("/proc").glob("[0-9]*/cgroup"):
        with contextlib.suppress(OSError):  # one that has just ended
            if container in file.read_text():
                os.kill(int(file.parent.name), signal.SIGKILL)


@pytest.mark.parametrize(
    ("what", "end"),
    [("pod deleted", _delete), ("rollout restart", _roll), ("process killed", _kill)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_daemon_comes_back(
    gpus: set[str], what: str, end: Callable[[], None], figure: Figures
) -> None:
    """Another one serves within seconds; pods go on, a new pod gets a free GPU."""
    before = product.identity()
    with watching.offers() as seen:
        began = time.monotonic()
        end()
        cluster.wait("another daemon", product.soon(lambda: _is_ready(before)))
        product.offers(8)
        _gets_a_free_one(gpus)
        figure(f"daemon, {what} → a new pod with a GPU runs", f"{time.monotonic() - began:.1f} s")
    figure(f"daemon, {what}: dip of allocatable", seen.dip(8))


def _is_ready(before: tuple[str, str, int]) -> bool:
    status = product.pod()["status"]["containerStatuses"][0]
    return product.identity() != before and bool(status["ready"])


def _gets_a_free_one(held: set[str]) -> None:
    with pods.running("new"):
        assert pods.gpu_of("new") not in held
