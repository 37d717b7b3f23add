"""Overlays of the manifests, as a user makes them."""

from pathlib import Path

from tests.cluster import product
from tests.cluster.node.cluster import kubectl
from tests.cluster.node.paths import ROOT

SIMULATED = "examples/simulated"


def write(folder: Path, *components: str, base: str = SIMULATED) -> Path:
    """Write a kustomization over a folder of the checkout."""
    # Real paths: kustomize takes no absolute ones, and counts no link as a folder.
    up = Path(*[".."] * (len(folder.resolve().parts) - 1))
    root = up / ROOT.resolve().relative_to("/")
    lines = [f"resources: [{root / base}]", "components:"]
    lines += [f"- {root / 'daemonset/components' / name}" for name in components]
    (folder / "kustomization.yaml").write_text("\n".join([*lines, ""]))
    return folder


def apply(folder: Path) -> None:
    """Apply a kustomization, and wait until its pods are ready."""
    kubectl("apply", "-k", str(folder))
    kubectl(*product.NAMESPACE, "rollout", "status", product.DAEMONSET, "--timeout=60s")
