"""Kubelets for scenarios: releases of the real one and eras of ours, each in a short folder."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kubelet.node import Kubelet
from tests.kubelet.plugin import ScriptedPlugin
from tests.kubelet.real import RealKubelet
from tests.kubelet.simulated import Simulated

PROGRAMS = Path(os.environ.get("KUBELET_PROGRAMS", "build/kubelet"))
FULL = "1.34 1.37 simulated-1.36 simulated-1.37"
SMOKE = "1.36"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which kubelets the scenarios run on."""
    parser.addoption("--full", default=FULL, help=f"kubelets that run all scenarios ({FULL})")
    parser.addoption("--smoke", default=SMOKE, help=f"kubelets that run the smoke ones ({SMOKE})")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each scenario on every kubelet that is asked for."""
    if "kind" not in metafunc.fixturenames:
        return
    kinds = metafunc.config.getoption("full").split()
    if metafunc.definition.get_closest_marker("smoke"):
        kinds += metafunc.config.getoption("smoke").split()
    only = metafunc.definition.get_closest_marker("only")
    metafunc.parametrize("kind", [kind for kind in kinds if only is None or kind in only.args])


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="dp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def boot(kind: str, root: Path) -> Iterator[Callable[..., Kubelet]]:
    """Start the kubelet with settings of one's own; it is ended afterwards."""
    started: list[RealKubelet | Simulated] = []

    def start(**settings: object) -> Kubelet:
        started.append(_start(kind, root, settings))
        return started[-1]

    yield start
    for kubelet in started:
        kubelet.close()


def _start(kind: str, root: Path, settings: dict[str, object]) -> RealKubelet | Simulated:
    if kind.startswith("simulated-"):
        return Simulated(root, kind.removeprefix("simulated-"), **settings)
    return RealKubelet(PROGRAMS.absolute() / f"dm-{kind}", root, kind, **settings)


@pytest.fixture
def kubelet(boot: Callable[..., Kubelet]) -> Kubelet:
    """A started kubelet with the usual settings."""
    return boot()


@pytest.fixture
def plugin(root: Path) -> Iterator[Callable[..., ScriptedPlugin]]:
    """Make scripted plugins beside the kubelet; all are closed afterwards."""
    made: list[ScriptedPlugin] = []

    def make(resource: str = "nvidia.com/gpu") -> ScriptedPlugin:
        made.append(ScriptedPlugin(root / "device-plugins", resource))
        return made[-1]

    yield make
    for each in made:
        each.close()
