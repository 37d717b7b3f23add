"""Edits of the ConfigMap, good and bad, under running pods."""

import shutil
from collections.abc import Iterator

import pytest

from tests.cluster import overlay, pods, product
from tests.cluster.conftest import WHOLE
from tests.cluster.node import cluster
from tests.cluster.node.cluster import get, kubectl
from tests.cluster.node.paths import DAEMON_STATE, ROOT

FOUR_EACH = "version: v1\nsharing:\n  timeSlicing:\n    replicas: 4\n"
MISSPELT = FOUR_EACH.replace("timeSlicing", "timeSlicng")
# The first GPU under a name of its own.
NOTEBOOKS = """\
version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      devices: [0]
      replicas: 3
      rename: nvidia.com/gpu.notebook
"""
NOTEBOOK = "nvidia.com/gpu.notebook"


@pytest.fixture
def kept(deployed: None) -> Iterator[None]:
    """A pod with a GPU, and the daemon: neither may be touched."""
    del deployed
    with pods.running("kept"):
        pod, daemon = pods.lives("kept"), product.identity()
        yield
        assert pods.lives("kept") == pod
        assert product.identity() == daemon


def test_an_edit_reaches_the_node(kept: None) -> None:
    """One GPU becomes four and one again, without a restart of anything."""
    del kept
    product.configure(FOUR_EACH)
    product.offers(32)
    product.configure(WHOLE)
    product.offers(8)


def test_a_mistake_changes_nothing(kept: None) -> None:
    """It is told with file, line and remedy, and by a metric; the next edit heals it."""
    del kept
    _has(8)
    before = product.metric("config_rejections_total")
    product.configure(MISSPELT)
    cluster.wait("the refusal", lambda: product.metric("config_rejections_total") == before + 1)
    assert product.metric("config_last_reload_success") == 0
    told = "nvidia.yaml:3: sharing.timeSlicng: found an unknown key; write timeSlicing"
    product.logged_at("ERROR", "config refused, the one in force stays", told)
    assert (product.capacity(), product.allocatable()) == (8, 8)
    product.configure(FOUR_EACH)
    product.offers(32)
    assert product.metric("config_last_reload_success") == 1


def test_the_last_good_config_outlives_its_configmap(deployed: None) -> None:
    """Without the ConfigMap all stays as it was, also for the next daemon pod."""
    del deployed
    product.configure(FOUR_EACH)
    product.offers(32)
    before = product.identity()
    product.configure(None)
    cluster.wait("the daemon to miss it", lambda: "the config in force stays" in product.log())
    assert product.allocatable() == 32
    assert product.identity() == before
    kubectl(*product.NAMESPACE, "delete", "pod", product.pod()["metadata"]["name"])
    cluster.wait("the next pod", product.soon(lambda: _serves_anew(before)))
    product.offers(32)


def test_a_configmap_may_come_later(blank: None) -> None:
    """None is needed at first; one that comes is taken without a restart."""
    del blank
    product.offers(8)
    before = product.identity()
    product.configure(FOUR_EACH)
    product.offers(32)
    assert product.identity() == before


@pytest.fixture
def blank(deployed: None) -> None:
    """A daemon that never had a ConfigMap, on a node that knows nothing of an earlier one."""
    del deployed
    kubectl(*product.NAMESPACE, "delete", product.DAEMONSET)
    cluster.wait("the daemon's pod to be gone", lambda: not _daemon_pods())
    product.configure(None)
    shutil.rmtree(DAEMON_STATE)
    overlay.apply(ROOT / overlay.SIMULATED)


def test_a_renamed_gpu_moves_to_its_new_resource(deployed: None) -> None:
    """While a pod holds it, it is offered under neither name; then under the new one alone."""
    del deployed
    _has(8)
    names = [f"all-{n}" for n in range(8)]
    with pods.running(*names):
        product.configure(NOTEBOOKS)
        product.offers(7)
        assert product.capacity() == 8
        assert product.metric("config_unmet_entries") == 1
        assert product.allocatable(NOTEBOOK) == 0
    product.offers(3, NOTEBOOK)
    _has(7)
    with pods.running("a", "b", "c", resource=NOTEBOOK):
        assert len({pods.gpu_of(name) for name in "abc"}) == 1


def _has(units: int) -> None:
    # Units that an earlier edit withdrew stay in the capacity for half a minute.
    cluster.wait(f"a capacity of {units}", lambda: product.capacity() == units, seconds=90)


def _serves_anew(before: tuple[str, str, int]) -> bool:
    return product.identity() != before and product.metric("ready") == 1


def _daemon_pods() -> list[object]:
    return list(get(*product.NAMESPACE, "pods")["items"])
