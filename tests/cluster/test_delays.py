"""How long an edit of the ConfigMap takes, and whose part is what."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from tests.cluster import product, watching
from tests.cluster.conftest import WHOLE, Figures
from tests.cluster.node import cluster, kubelet
from tests.cluster.node.cluster import kubectl
from tests.cluster.node.paths import KUBELET_ROOT

EDITS = {32: "version: v1\nsharing: {timeSlicing: {replicas: 4}}\n", 8: WHOLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """Parts of one edit, in seconds, one after the other.

    Attributes:
        file: from before `kubectl apply` until the pod had the new file: the kubelet's.
        ours: from then until the daemon had sent the new list.
        node: from then until the node's status told it: the kubelet's again.

    """

    file: float
    ours: float
    node: float


@pytest.fixture
def untouched(deployed: None) -> Iterator[None]:
    """The daemon goes on in the same container."""
    del deployed
    before = product.identity()
    yield
    assert product.identity() == before


@pytest.fixture
def slow(untouched: None) -> Iterator[None]:
    """A kubelet with its own defaults."""
    del untouched
    restarts = product.metric("kubelet_restarts_total")
    cluster.restart_kubelet(kubelet.DEFAULT)
    cluster.wait(
        "the daemon to see the new kubelet",
        product.soon(lambda: product.metric("kubelet_restarts_total") > restarts),
    )
    product.offers(8)
    yield
    cluster.restart_kubelet()
    product.offers(8)


def test_with_a_quick_kubelet(untouched: None, figure: Figures) -> None:
    """With syncFrequency 1s an edit is on the node in seconds, and our part is milliseconds."""
    del untouched
    delays = [_edit(count) for count in (32, 8, 32, 8, 32)]
    _tell(figure, "syncFrequency 1s", delays)
    assert max(delay.file for delay in delays) < 10
    assert statistics.median(delay.ours for delay in delays) < 0.25


def test_with_a_kubelets_defaults(slow: None, figure: Figures) -> None:
    """A minute to one and a half is the kubelet's; annotating the pod makes it a second."""
    del slow
    annotated = [_edit(count, _annotate) for count in (32, 8, 32)]
    _tell(figure, "kubelet's defaults, pod annotated", annotated)
    alone = _edit(8, seconds=150)
    _tell(figure, "kubelet's defaults", [alone])
    assert max(delay.file for delay in annotated) < 10
    assert 30 < alone.file < 120
    assert max(delay.ours for delay in (*annotated, alone)) < 0.5


def _edit(units: int, then: Callable[[], None] = lambda: None, *, seconds: float = 60) -> Delay:
    before = _changed()
    with watching.offers() as seen:
        began, clock = time.time(), time.monotonic()
        product.configure(EDITS[units])
        then()
        product.offers(units, seconds=seconds)
        # The watch may be a moment behind our own question.
        cluster.wait("the watch to tell it", lambda: seen.changes[-1][1] == units)
        node = seen.changes[-1][0] - clock
    file = _changed()
    assert file > before
    sent = _sent(units, since=file)
    return Delay(file=file - began, ours=sent - file, node=began + node - sent)


def _changed() -> float:
    """When the folder in the pod got its present content: seconds since the epoch."""
    volumes = KUBELET_ROOT / "pods" / product.pod()["metadata"]["uid"] / "volumes"
    return Path(volumes / "kubernetes.io~configmap" / "config" / "..data").lstat().st_ctime


def _sent(healthy: int, *, since: float) -> float:
    lines = [line for line in product.log().splitlines() if "list sent" in line]
    times = [
        datetime.fromisoformat(line.split()[0]).timestamp()
        for line in lines
        if line.endswith(f"healthy={healthy}")
    ]
    # The log rounds to milliseconds.
    return min(at for at in times if at >= since - 0.001)


def _annotate() -> None:
    label = ("-l", "app.kubernetes.io/name=deviceplugin")
    edited = f"edited={time.time()}"
    kubectl(*product.NAMESPACE, "annotate", "pods", *label, "--overwrite", edited)


def _tell(figure: Figures, name: str, delays: list[Delay]) -> None:
    middle = statistics.median
    figure(f"edit, {name}: apply → file in the pod", f"{middle(d.file for d in delays):.2f} s")
    figure(f"edit, {name}: file → list sent", f"{middle(d.ours for d in delays) * 1e3:.0f} ms")
    figure(f"edit, {name}: list → node's status", f"{middle(d.node for d in delays):.2f} s")
