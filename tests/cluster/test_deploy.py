"""The README's Deploy section, and what then runs."""

import itertools
import re

import pytest

from tests.cluster import product
from tests.cluster.conftest import Figures
from tests.cluster.node import cluster, images
from tests.cluster.node.cluster import kubectl
from tests.cluster.node.images import Built
from tests.cluster.node.paths import NODE, ROOT
from tests.cluster.readme import Step

COMPONENTS = sorted(folder.name for folder in (ROOT / "daemonset/components").iterdir())
# Two that say different things about the same field.
APART = {frozenset({"simulated-machine", "host-driver-root"})}


def _together() -> list[tuple[str, ...]]:
    alone: list[tuple[str, ...]] = [(), *((name,) for name in COMPONENTS)]
    pairs = [
        pair
        for pair in itertools.combinations(COMPONENTS, 2)
        if "without-nvidia" not in pair and frozenset(pair) not in APART
    ]
    return [*alone, *pairs]


def test_the_readme_can_be_followed(followed: list[Step]) -> None:
    """Its commands work as they stand, on a node that has the handler and no GPU."""
    _, _, applied, simulated, shared = followed
    assert "daemonset.apps/deviceplugin-nvidia created" in applied.output
    assert "successfully rolled out" in applied.output
    assert re.search(rf"{NODE}\s+<none>", applied.output), applied.output
    assert "successfully rolled out" in simulated.output
    assert "configmap/deviceplugin created" in shared.output


def test_the_configmap_of_the_readme_shares_each_gpu(deployed: None) -> None:
    """The README's last command ends in four units for each of eight GPUs, under their own name."""
    del deployed
    product.configure((ROOT / "configs/time-slicing.yaml").read_text())
    product.offers(32, "nvidia.com/gpu.shared")


def test_it_has_no_right_that_it_does_not_need(deployed: None) -> None:
    """No capability, no writable root, no token, seccomp on: as the kernel sees the process."""
    del deployed
    status = product.inside("grep", "-E", "^(CapEff|CapPrm|NoNewPrivs|Seccomp):", "/proc/1/status")
    assert status.split() == [
        "CapPrm:", "0000000000000000", "CapEff:", "0000000000000000",
        "NoNewPrivs:", "1", "Seccomp:", "2",
    ]  # fmt: skip
    tried = "touch /x 2>&1; ls /var/run/secrets/kubernetes.io 2>&1; true"
    said = product.inside("sh", "-c", tried)
    assert "Read-only file system" in said
    assert "No such file" in said


def test_memory_is_within_what_it_asks_for(deployed: None, figure: Figures) -> None:
    """What it uses is what the manifest asks the scheduler for."""
    del deployed
    line = product.inside("grep", "VmRSS", "/proc/1/status")
    resident = int(line.split()[1]) / 1024
    figure("daemon's resident memory in its pod", f"{resident:.0f} MiB (request 80, limit 256)")
    assert resident <= 80


@pytest.mark.parametrize("names", _together(), ids=lambda names: "+".join(names) or "alone")
def test_every_combination_is_accepted(followed: list[Step], names: tuple[str, ...]) -> None:
    """The API server takes the manifests with each component, and with each pair of them."""
    del followed
    overlay = ROOT / "build" / "overlay"
    overlay.mkdir(parents=True, exist_ok=True)
    paths = [f"- ../../daemonset/components/{name}" for name in names]
    lines = (
        ["resources: [../../daemonset]", "components:", *paths]
        if names
        else ["resources: [../../daemonset]"]
    )
    (overlay / "kustomization.yaml").write_text("\n".join([*lines, ""]))
    kubectl("apply", "-k", str(overlay), "--dry-run=server")


def test_nodes_that_nobody_marked_are_left_alone(deployed: None) -> None:
    """Without a label no pod is made, and the DaemonSet is content."""
    del deployed
    kubectl("label", "node", NODE, "nvidia.com/gpu.present-")
    try:
        rendered = kubectl("kustomize", "daemonset")
        other = rendered.replace("deviceplugin-nvidia", "unmarked").replace(
            "namespace: deviceplugin", "namespace: default"
        )
        kubectl("apply", "-f", "-", stdin=other)
        cluster.wait(
            "the DaemonSet to be looked at",
            lambda: cluster.get("daemonset", "unmarked")["status"].get("observedGeneration") == 1,
        )
        status = cluster.get("daemonset", "unmarked")["status"]
        assert (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (0, 0)
    finally:
        kubectl("delete", "daemonset/unmarked", "runtimeclass/unmarked", "--ignore-not-found")
        kubectl("label", "node", "--overwrite", NODE, "nvidia.com/gpu.present=true")


def test_two_builds_are_the_same_image(image: Built) -> None:
    """A second build from nothing makes the same image, to the last byte."""
    again = images.build("localhost/again:0", cached=False)
    once = images.build("localhost/once:0", cached=False)
    assert again.id == once.id
    assert again.size == image.size


def test_the_image_runs_by_itself(image: Built) -> None:
    """Outside of any cluster it tells its version and simulates a node."""
    assert images.run_in(image.name, "deviceplugin", "version").stdout.strip() == "0.1.0"
    ended = images.run_in(image.name, "deviceplugin", "simulate", "l4x1", "--for", "3")
    assert ended.returncode == 0, ended.stderr
    assert "nvidia.com/gpu" in ended.stdout
