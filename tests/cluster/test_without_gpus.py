"""The manifests as they are, on a node that has the runtime's handler and no GPU."""

import time
from collections.abc import Iterator

import pytest

from tests.cluster import overlay, product
from tests.cluster.conftest import Figures
from tests.cluster.node import cluster
from tests.cluster.node.cluster import get, kubectl
from tests.cluster.node.paths import ROOT


@pytest.fixture
def real(deployed: None) -> Iterator[None]:
    """The default variant in place of the simulated machine."""
    del deployed
    overlay.apply(ROOT / "daemonset")
    yield
    overlay.apply(ROOT / overlay.SIMULATED)


def test_a_missing_driver_is_a_state_with_a_name(real: None) -> None:
    """Its pod runs under the RuntimeClass, is Ready, and says what is missing."""
    del real
    pod = product.pod()
    assert pod["spec"]["runtimeClassName"] == "deviceplugin-nvidia"
    assert get("runtimeclass", "deviceplugin-nvidia")["handler"] == "nvidia"
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert product.page("readyz").startswith("ready")
    assert product.metric('backend_state{state="no-library"}') == 1
    product.logged_at("WARNING", "driver state", "state=no-library", "libnvidia-ml.so.1")
    assert product.allocatable() == 0


def test_the_daemonset_can_go_and_come(deployed: None, figure: Figures) -> None:
    """Deleted, it leaves a node that offers nothing; applied again, all is back."""
    del deployed
    kubectl(*product.NAMESPACE, "delete", product.DAEMONSET)
    cluster.wait("the node to offer nothing", lambda: product.allocatable() == 0)
    began = time.monotonic()
    kubectl("apply", "-k", overlay.SIMULATED)
    product.offers(8)
    figure("DaemonSet applied → allocatable", f"{time.monotonic() - began:.1f} s")
