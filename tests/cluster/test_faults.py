"""GPUs that break and heal under pods."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import pods, product
from tests.cluster.conftest import Figures
from tests.cluster.node import cluster
from tests.cluster.node.cluster import get, kubectl


@pytest.fixture(autouse=True)
def healed(deployed: None) -> Iterator[None]:
    """Whatever a test breaks is whole again after it."""
    del deployed
    yield
    product.happens(recover="all")
    if _sick():  # what a failed test left; a reset is a fault of its own for two seconds
        for gpu in range(8):
            product.happens(reset=gpu)
        cluster.wait("no GPU to be sick", lambda: not _sick())
    product.offers(8)


def test_a_pod_tells_that_its_gpu_is_lost_and_back(figure: Figures) -> None:
    """The pod's status says Unhealthy, then Healthy; the node offers one less meanwhile."""
    with pods.running("hit"):
        before, gpu = pods.lives("hit"), _minor("hit")
        cluster.wait("the pod to tell of its GPU", lambda: _health("hit") == ["Healthy"])
        began = time.monotonic()
        product.happens(lost=gpu)
        product.offers(7)
        figure("GPU lost → node's allocatable (status each 1 s)", _since(began))
        cluster.wait("Unhealthy in the pod's status", lambda: _health("hit") == ["Unhealthy"])
        figure("GPU lost → allocatedResourcesStatus Unhealthy", _since(began))
        assert "health: Unhealthy" in kubectl("get", "pod", "hit", "-o", "yaml")
        began = time.monotonic()
        product.happens(recover=gpu)
        product.offers(8)
        figure("GPU back → allocatable (10 s of being seen good among it)", _since(began))
        cluster.wait("Healthy in the pod's status", lambda: _health("hit") == ["Healthy"])
        assert pods.lives("hit") == before


def test_the_scheduler_gives_no_pod_a_sick_gpu() -> None:
    """Seven pods run while one GPU of eight is sick; the eighth waits until it is well."""
    product.happens(lost=5)
    product.offers(7)
    names = [f"seven-{n}" for n in range(7)]
    with pods.running(*names):
        assert 5 not in {_minor(name) for name in names}
        pods.create(pods.manifest("eighth"))
        cluster.wait("the scheduler to look at it", lambda: _scheduled("eighth") == "False")
        product.happens(recover=5)
        cluster.wait("the eighth pod to run", lambda: pods.phase("eighth") == "Running")
        assert _minor("eighth") == 5


def test_a_fault_that_needs_a_reset_outlives_the_pod() -> None:
    """The next daemon pod begins with it: its first list holds the GPU back.

    That pod simulates a machine of its own, whose driver wants no reset: the fault then ends.
    """
    product.happens(xid=95, gpu=2)
    product.happens(recovery="reset", gpu=2)
    product.offers(7)
    gone = product.identity()
    kubectl(*product.NAMESPACE, "delete", "pod", product.pod()["metadata"]["name"])
    cluster.wait("another pod to send a list", product.soon(lambda: _has_listed(gone)))
    product.logged_at("device is unhealthy", "reason=xid-95", "clears_by=reset")
    assert _lists()[0].endswith("units=8 healthy=7")
    product.offers(8)


def _has_listed(gone: tuple[str, str, int]) -> bool:
    return product.identity() != gone and bool(_lists())


def _lists() -> list[str]:
    return [line for line in product.log().splitlines() if "list sent" in line]


def _sick() -> str:
    lines = product.page("metrics").splitlines()
    return "\n".join(
        line
        for line in lines
        if line.startswith("device_plugin_device_health{") and line.endswith(" 0.0")
    )


def _health(name: str) -> list[str]:
    status: Any = get("pod", name)["status"]["containerStatuses"][0]
    return [
        unit["health"]
        for resource in status.get("allocatedResourcesStatus", [])
        for unit in resource["resources"]
    ]


def _scheduled(name: str) -> str:
    path = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].status}"
    return kubectl("get", "pod", name, "-o", path)


def _minor(name: str) -> int:
    """Which of the machine's GPUs the pod has."""
    return int(kubectl("exec", name, "--", "sh", "-c", "echo /dev/nvidia[0-9]").strip()[-1])


def _since(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"
