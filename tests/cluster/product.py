"""The deployed daemon, as an operator sees it."""

import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.cluster.node import cluster
from tests.cluster.node.cluster import get, kubectl
from tests.cluster.node.shell import ClusterError

GPU = "nvidia.com/gpu"
NAMESPACE = ("-n", "deviceplugin")
DAEMONSET = "daemonset/deviceplugin-nvidia"
CONFIGMAP = "deviceplugin"
# On the node: a line appended to it happens to the simulated hardware.
_CONTROL = Path("/var/lib/deviceplugin/simulate-control")


def allocatable(resource: str = GPU) -> int:
    """What the node offers; 0 when it does not know the resource."""
    return int(cluster.node()["status"]["allocatable"].get(resource, 0))


def capacity(resource: str = GPU) -> int:
    """What the node has."""
    return int(cluster.node()["status"]["capacity"].get(resource, 0))


def offers(count: int, resource: str = GPU, *, seconds: float = 60) -> None:
    """Wait until the node offers so many units."""
    cluster.wait(
        f"{count} {resource} allocatable", lambda: allocatable(resource) == count, seconds=seconds
    )


def pod() -> Any:
    """The daemon's one pod that is not about to go."""
    pods = get(*NAMESPACE, "pods", "-l", "app.kubernetes.io/component=nvidia")["items"]
    living = [each for each in pods if "deletionTimestamp" not in each["metadata"]]
    assert len(living) == 1, [each["metadata"]["name"] for each in living]
    return living[0]


def identity() -> tuple[str, str, int]:
    """What changes when the daemon was restarted in any way: uid, container id, restarts."""
    found = pod()
    status = found["status"]["containerStatuses"][0]
    return found["metadata"]["uid"], status["containerID"], status["restartCount"]


def log() -> str:
    """All that the daemon's present container has logged."""
    return kubectl(*NAMESPACE, "logs", pod()["metadata"]["name"])


def logged_at(*words: str) -> datetime:
    """When the last line with all these words was logged.

    Raises:
        AssertionError: there is none.

    """
    lines = [line for line in log().splitlines() if all(word in line for word in words)]
    assert lines, f"no line with {words} in\n{log()}"
    return datetime.fromisoformat(lines[-1].split()[0])


def inside(*command: str) -> str:
    """Run a command in the daemon's container."""
    return kubectl(*NAMESPACE, "exec", pod()["metadata"]["name"], "--", *command)


def page(path: str) -> str:
    """A page of the daemon's, through the API server."""
    name = pod()["metadata"]["name"]
    return kubectl("get", "--raw", f"/api/v1/namespaces/deviceplugin/pods/{name}:9481/proxy/{path}")


def metric(name: str) -> float:
    """A sample by its name and labels; 0 when there is none yet."""
    found = re.search(rf"^device_plugin_{re.escape(name)} (\S+)$", page("metrics"), re.MULTILINE)
    return float(found[1]) if found else 0.0


def configure(text: str | None) -> None:
    """Apply the ConfigMap with this config, or delete it."""
    if text is None:
        kubectl(*NAMESPACE, "delete", "configmap", CONFIGMAP, "--ignore-not-found")
        return
    meta = {"name": CONFIGMAP, "namespace": "deviceplugin"}
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {"nvidia.yaml": text},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def happens(**step: object) -> None:
    """Let something happen to the simulated hardware: ``happens(xid=79, gpu=3)``."""
    with _CONTROL.open("a") as control:
        control.write(json.dumps(step) + "\n")


def soon(condition: Callable[[], object]) -> Callable[[], bool]:
    """The condition, false while the cluster cannot be asked."""

    def holds() -> bool:
        try:
            return bool(condition())
        except (ClusterError, AssertionError, KeyError, IndexError):
            return False

    return holds
