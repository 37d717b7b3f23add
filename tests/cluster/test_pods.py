"""Pods that ask for GPUs."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import overlay, pods, product
from tests.cluster.conftest import Figures
from tests.cluster.node import cluster
from tests.cluster.node.cluster import get, kubectl
from tests.cluster.node.paths import NODE, ROOT

AS_THEY_STAND = "version: v1\nsharing:\n  timeSlicing:\n    replicas: 4\n"
# GPU, then seconds since boot when it began and when it ended: one clock for all pods.
_TURN = "cut -d' ' -f1 /proc/uptime"
_TAKES_A_TURN = f"echo $NVIDIA_VISIBLE_DEVICES; {_TURN}; sleep 1; {_TURN}"


def test_a_pod_gets_what_it_asked_for(deployed: None, figure: Figures) -> None:
    """A pod that asks for one GPU has one in its environment, and device nodes."""
    del deployed
    with pods.running("one") as seconds:
        figure("pod with a GPU created → running", f"{seconds:.1f} s")
        assert re.fullmatch(r"GPU-[0-9a-f-]{36}", pods.gpu_of("one"))
        nodes = kubectl("exec", "one", "--", "sh", "-c", "stat -c '%n %t:%T' /dev/nvidia*")
        # 1:3 is /dev/null, which stands in for each node of a simulated GPU.
        assert re.search(r"^/dev/nvidia[0-7] 1:3$", nodes, re.MULTILINE), nodes
        assert "/dev/nvidiactl 1:3" in nodes


def test_describe_shows_it(deployed: None) -> None:
    """`kubectl describe` has capacity, allocatable and what pods hold."""
    del deployed
    with pods.running("two", count=2):
        node = kubectl("describe", "node", NODE)
        held = kubectl("describe", "pod", "two")
    assert len(re.findall(r"^ +nvidia\.com/gpu: +8$", node, re.MULTILINE)) == 2, node
    assert re.search(r"^ +nvidia\.com/gpu +2 +2 *$", node, re.MULTILINE), node
    assert re.search(r"Limits:\n +nvidia\.com/gpu: +2$", held, re.MULTILINE), held


def test_twenty_pods_take_turns_on_eight_gpus(deployed: None, figure: Figures) -> None:
    """All pods of a Job end well, and no GPU ever has two of them."""
    del deployed
    pods.create(_job("turns", 20))
    cluster.wait("20 pods to succeed", lambda: get("job", "turns")["status"].get("succeeded") == 20)
    turns = list(_turns("turns"))
    assert len(turns) == 20
    for gpu, group in itertools.groupby(sorted(turns), key=lambda turn: turn[0]):
        times = [time for _, began, ended in group for time in (began, ended)]
        assert times == sorted(times), (gpu, times)
    whole = max(turn[2] for turn in turns) - min(turn[1] for turn in turns)
    figure("Job: 20 pods of 1 s on 8 GPUs", f"{whole:.1f} s")


def test_a_pod_that_asks_too_much_waits(deployed: None) -> None:
    """It stays Pending, with the scheduler's reason."""
    del deployed
    pods.create(pods.manifest("greedy", count=9))
    cluster.wait("the scheduler to look at it", lambda: _unscheduled("greedy"))
    assert "1 Insufficient nvidia.com/gpu" in _unscheduled("greedy")
    assert pods.phase("greedy") == "Pending"


def test_an_existing_configmap_works_as_it_stands(existing: None) -> None:
    """The short form under the key `config`: nine pods share eight GPUs, one unit each."""
    del existing
    product.offers(32)
    # The daemon counts a GPU that an ended pod had whole as in use until it asks PodResources.
    cluster.wait("whole GPUs to leave the list", lambda: product.capacity() == 32)
    names = [f"share-{n}" for n in range(9)]
    with pods.running(*names):
        on = Counter(pods.gpu_of(name) for name in names)
    assert len(on) == 8
    assert sorted(on.values()) == [1] * 7 + [2]


@pytest.fixture
def existing(deployed: None, tmp_path: Path) -> Iterator[None]:
    """The daemon over a ConfigMap that was there for NVIDIA's plugin."""
    del deployed
    kubectl(
        *product.NAMESPACE,
        "create",
        "configmap",
        "nvidia-plugin-configs",
        f"--from-literal=config={AS_THEY_STAND}",
    )
    overlay.apply(overlay.write(tmp_path, "existing-configmap"))
    yield
    overlay.apply(ROOT / overlay.SIMULATED)
    kubectl(*product.NAMESPACE, "delete", "configmap", "nvidia-plugin-configs")


def _job(name: str, count: int) -> Any:
    pod = pods.manifest(name, command=_TAKES_A_TURN)
    template = {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": pod["metadata"],
        "spec": {
            "completions": count,
            "parallelism": count,
            "backoffLimit": 0,
            "template": template,
        },
    }


def _turns(job: str) -> Iterator[tuple[str, float, float]]:
    for pod in get("pods", "-l", f"job-name={job}")["items"]:
        gpu, began, ended = kubectl("logs", pod["metadata"]["name"]).split()
        yield gpu, float(began), float(ended)


def _unscheduled(name: str) -> str:
    conditions = get("pod", name)["status"].get("conditions", [])
    found = [each for each in conditions if each["type"] == "PodScheduled"]
    return str(found[0].get("message", "")) if found else ""
