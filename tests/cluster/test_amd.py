"""AMD's DaemonSet on the cluster: MI300X in partitions, simulated; everything else is real."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import overlay, pods, product
from tests.cluster.conftest import WHOLE
from tests.cluster.node import cluster
from tests.cluster.node.cluster import get, kubectl
from tests.cluster.node.paths import ROOT

GPU, SPX = "amd.com/gpu", "amd.com/spx_nps1"
DAEMONSET = "daemonset/deviceplugin-amd"
CONTROL = Path("/var/lib/deviceplugin/simulate-amd-control")
MIXED = "version: v1\nflags: {partitionStrategy: mixed}\n"


@pytest.fixture
def amd(deployed: None, tmp_path: Path) -> Iterator[None]:
    """The overlay with simulated AMD GPUs, beside NVIDIA's."""
    del deployed
    folder = overlay.write(tmp_path, "simulated-amd-machine")
    kubectl("apply", "-k", str(folder))
    kubectl(*product.NAMESPACE, "rollout", "status", DAEMONSET, "--timeout=120s")
    yield
    product.configure(WHOLE)
    kubectl("apply", "-k", str(ROOT / overlay.SIMULATED))
    cluster.wait("AMD's pods to go", lambda: not _pods())
    CONTROL.unlink(missing_ok=True)


def _pods() -> list[tuple[str, int]]:
    """The daemon's pods: uid and restarts."""
    found = get(*product.NAMESPACE, "pods", "-l", "app.kubernetes.io/component=amd")["items"]
    return [
        (each["metadata"]["uid"], each["status"]["containerStatuses"][0]["restartCount"])
        for each in found
    ]


def _happens(**step: object) -> None:
    with CONTROL.open("a") as control:
        control.write(json.dumps(step) + "\n")


def _configure(amd_text: str) -> None:
    """Apply the ConfigMap with a config for each vendor, and have the kubelet look at once."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": product.CONFIGMAP, "namespace": "deviceplugin"},
        "data": {"nvidia.yaml": WHOLE, "amd.yaml": amd_text},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def test_no_pod_where_no_amd_gpu_is(deployed: None) -> None:
    """The DaemonSet is there from the start, and runs on no node without a label of AMD's."""
    del deployed
    assert get(*product.NAMESPACE, DAEMONSET)["status"]["desiredNumberScheduled"] == 0


def test_partitions_for_pods(amd: None) -> None:
    """The node offers 64; a pod gets the nodes of its two and /dev/kfd, and NVIDIA's stay."""
    del amd
    product.offers(64, GPU)
    product.offers(8)
    with pods.running("halves", count=2, resource=GPU):
        nodes = kubectl("exec", "halves", "--", "ls", "/dev/dri").split()
        assert len(nodes) == 4
        assert len([node for node in nodes if node.startswith("renderD")]) == 2
        kubectl("exec", "halves", "--", "test", "-c", "/dev/kfd")


def test_a_repartition_under_a_pod(amd: None) -> None:
    """GPUs are made whole on the open stream; the held one waits for its pod; nothing restarts."""
    del amd
    product.offers(64, GPU)
    before = _pods()
    with pods.running("busy", resource=GPU):
        _happens(repartition="SPX/NPS1")
        product.offers(7, GPU)
        assert pods.phase("busy") == "Running"
    product.offers(8, GPU)
    _happens(repartition="CPX/NPS4")
    product.offers(64, GPU)
    assert _pods() == before


def test_the_strategy_is_a_config_edit(amd: None) -> None:
    """Under mixed each kind has a name of its own, without a restart."""
    del amd
    before = _pods()
    _happens(repartition="SPX/NPS1")
    product.offers(8, GPU)
    _configure(MIXED)
    product.offers(8, SPX, seconds=120)
    product.offers(0, GPU)
    _configure("version: v1\n")
    product.offers(8, GPU, seconds=120)
    assert _pods() == before
