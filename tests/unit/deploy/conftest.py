"""The files that deploy the daemon, parsed."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

Tree = dict[str, Any]
Manifest = Callable[[str], Tree]


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the repository."""
    return Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def manifest(root: Path) -> Manifest:
    """Return a function that reads a file of daemonset/."""

    def read(name: str) -> Tree:
        tree: Tree = yaml.safe_load((root / "daemonset" / name).read_text())
        return tree

    return read


@pytest.fixture(scope="session")
def pod(manifest: Manifest) -> Tree:
    """Return the pod that all vendors have in common."""
    pod: Tree = manifest("base/daemonset.yaml")["spec"]["template"]["spec"]
    return pod


@pytest.fixture(scope="session")
def nvidia(manifest: Manifest) -> Tree:
    """Return what NVIDIA's DaemonSet says of its pod besides."""
    pod: Tree = manifest("nvidia/daemonset.yaml")["spec"]["template"]["spec"]
    return pod


@pytest.fixture(scope="session")
def amd(manifest: Manifest) -> Tree:
    """Return what AMD's DaemonSet says of its pod besides."""
    pod: Tree = manifest("amd/daemonset.yaml")["spec"]["template"]["spec"]
    return pod


@pytest.fixture(scope="session", params=["nvidia", "amd"])
def vendor(request: pytest.FixtureRequest) -> str:
    """Name each vendor that has a DaemonSet."""
    return str(request.param)


@pytest.fixture(scope="session")
def patch(manifest: Manifest, vendor: str) -> Tree:
    """Return what a vendor's DaemonSet says of its pod besides."""
    pod: Tree = manifest(f"{vendor}/daemonset.yaml")["spec"]["template"]["spec"]
    return pod


@pytest.fixture(scope="session")
def everything(root: Path) -> dict[str, list[tuple[str, object]]]:
    """Return, for each YAML file, all its keys with their values, patches in it included."""
    files = sorted([*root.glob("daemonset/**/*.yaml"), *root.glob("examples/**/*.yaml")])
    return {str(f.relative_to(root)): list(_walk(yaml.safe_load(f.read_text()))) for f in files}


def _walk(node: object) -> Iterator[tuple[str, object]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield key, value
            # A patch stands in its kustomization as a text.
            yield from _walk(yaml.safe_load(value) if key == "patch" else value)
    if isinstance(node, list):
        for value in node:
            yield from _walk(value)
