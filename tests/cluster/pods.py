"""Pods of users, as they write them."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cluster.node import cluster
from tests.cluster.node.cluster import get, kubectl
from tests.cluster.node.paths import BUSYBOX_IMAGE
from tests.cluster.product import GPU

STAY = "sleep 1000"


def manifest(name: str, *, count: int = 1, command: str = STAY, resource: str = GPU) -> Any:
    """A pod that asks for units."""
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "command": ["sh", "-c", command],
        "resources": {"limits": {resource: count}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"made-by": "tests"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


@contextmanager
def running(*names: str, **settings: Any) -> Iterator[float]:
    """Pods that run, and are gone afterwards; gives the seconds until all were running."""
    began = time.monotonic()
    try:
        for name in names:
            create(manifest(name, **settings))
        for name in names:
            cluster.wait(f"pod {name} to run", lambda name=name: phase(name) == "Running")
        yield time.monotonic() - began
    finally:
        delete(*names)


def create(what: Any) -> None:
    """Create an object."""
    kubectl("create", "-f", "-", stdin=json.dumps(what))


def delete(*names: str) -> None:
    """Delete pods, and wait until they are gone."""
    kubectl("delete", "pod", *names, "--ignore-not-found", "--force", "--grace-period=0")


def phase(name: str) -> str:
    """The pod's phase."""
    return str(get("pod", name)["status"].get("phase", ""))


def gpu_of(name: str) -> str:
    """The GPUs in a running pod's environment."""
    return kubectl("exec", name, "--", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip()


def lives(*names: str) -> dict[str, tuple[str, str, int]]:
    """What changes when a pod was touched: uid, container id, restarts."""
    found = {}
    for name in names:
        pod = get("pod", name)
        status = pod["status"]["containerStatuses"][0]
        assert "running" in status["state"], status["state"]
        found[name] = (pod["metadata"]["uid"], status["containerID"], status["restartCount"])
    return found
