"""Kubelets for scenarios: releases of the real one and eras of ours, each in a short folder."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kubelet import able
from tests.kubelet.build import PROGRAMS, program
from tests.kubelet.daemon import Ours
from tests.kubelet.figures import Figures
from tests.kubelet.node import Kubelet
from tests.kubelet.order import first_of_each_worker
from tests.kubelet.plugin import Plugins, ScriptedPlugin
from tests.kubelet.real import RealKubelet
from tests.kubelet.releases import MINORS
from tests.kubelet.simulated import Simulated

_OLDEST, *_BETWEEN, _NEWEST = MINORS
FULL = f"{_OLDEST} {_NEWEST} simulated-1.36 simulated-1.37"
SMOKE = " ".join(_BETWEEN)
_FIGURES = pytest.StashKey[Figures]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which kubelets the scenarios run on."""
    parser.addoption("--full", default=FULL, help=f"kubelets that run all scenarios ({FULL})")
    parser.addoption("--smoke", default=SMOKE, help=f"kubelets that run the smoke ones ({SMOKE})")


def pytest_configure(config: pytest.Config) -> None:
    """Have a place for what is measured."""
    config.stash[_FIGURES] = Figures()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each scenario on every kubelet that is asked for."""
    if "kind" not in metafunc.fixturenames:
        return
    kinds = metafunc.config.getoption("full").split()
    if metafunc.definition.get_closest_marker("smoke"):
        kinds += metafunc.config.getoption("smoke").split()
    only = metafunc.definition.get_closest_marker("only")
    metafunc.parametrize("kind", [kind for kind in kinds if only is None or kind in only.args])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests that wait for minutes begin first."""
    first_of_each_worker(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what was measured, and write it; beside other workers nothing is."""
    figures = config.stash[_FIGURES]
    if figures.samples:
        figures.write(PROGRAMS / "figures.json")
        terminalreporter.section("figures")
        for line in figures.table():
            terminalreporter.line(line)


@pytest.fixture
def figure(kind: str, request: pytest.FixtureRequest) -> Callable[[str, float], None]:
    """Record a sample in milliseconds: ``figure("flip to allocatable", 0.8)``; often, if need be.

    They are printed and written by runs without workers only: mark the test ``figures``.
    """
    figures = request.config.stash[_FIGURES]
    return lambda name, value_ms: figures.add(name, kind, value_ms)


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
    try:
        return RealKubelet(able.command(program(kind)), root, kind, **settings)
    except able.CannotRunError as error:
        pytest.skip(str(error))


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


@pytest.fixture
def served(kubelet: Kubelet, plugin: Plugins) -> ScriptedPlugin:
    """A plugin whose eight devices the kubelet has."""
    gpu = plugin()
    gpu.listed(kubelet, "a.sock")
    return gpu


@pytest.fixture
def ours(root: Path) -> Iterator[Ours]:
    """Our daemon beside the kubelet; its processes are ended afterwards."""
    ours = Ours(root)
    yield ours
    ours.close()
