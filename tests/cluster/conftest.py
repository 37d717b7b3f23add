"""A cluster for the whole run, with the image in it; taken away whatever happens."""

import os
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from tests.cluster import product, readme
from tests.cluster.node import cluster as node
from tests.cluster.node import images, packages, processes, programs
from tests.cluster.node.cluster import get, kubectl
from tests.cluster.node.images import Built
from tests.cluster.node.shell import ClusterError
from tests.cluster.readme import Step
from tests.kubelet import go

IMAGE = "localhost/deviceplugin:0.1.0"
NAMESPACE = ("-n", "deviceplugin")
WHOLE = "version: v1\nflags: {plugin: {passDeviceSpecs: true}}\n"
_LOGS = ("kubelet", "containerd")

Figures = Callable[[str, str], None]


def pytest_configure(config: pytest.Config) -> None:
    """Keep what tests measure until the end."""
    config.stash[_FIGURES] = {}


_FIGURES = pytest.StashKey[dict[str, str]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give builds and a real node the time that they take; first comes what needs the machine."""
    items.sort(key=lambda item: "alone" not in getattr(item, "fixturenames", ()))
    for item in items:
        item.add_marker(pytest.mark.timeout(1200))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what was measured."""
    figures = config.stash[_FIGURES]
    if figures:
        terminalreporter.section("figures")
    for name, value in figures.items():
        terminalreporter.write_line(f"{name:<72} {value}")


@pytest.fixture(scope="session")
def figure(request: pytest.FixtureRequest) -> Figures:
    """Put a line into the table at the end: ``figure("image", "259 MB")``."""
    figures = request.config.stash[_FIGURES]

    def put(name: str, value: str) -> None:
        figures[name] = value

    return put


@pytest.fixture(scope="session")
def built() -> None:
    """The cluster's programs; skips where they cannot be had."""
    reason = packages.obstacle()
    if reason:
        pytest.skip(reason)
    try:
        programs.build()
    except go.GoMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def image(built: None, figure: Figures) -> Built:
    """The image, built of the Dockerfile as it stands."""
    del built
    made = images.build(IMAGE)
    figure("image, of it ours", f"{made.size / 1e6:.0f} MB, {made.own / 1e6:.0f} MB")
    figure("image build", f"{made.seconds:.1f} s")
    return made


@pytest.fixture(scope="session")
def bare(built: None, figure: Figures) -> Iterator[None]:
    """A cluster with nothing in it; KEEP_CLUSTER=1 leaves it up afterwards."""
    del built
    node.down()  # what a killed run left
    figure("cluster up", f"{node.up():.1f} s")
    yield
    if not os.environ.get("KEEP_CLUSTER"):
        figure("cluster down", f"{node.down():.1f} s")


@pytest.fixture
def alone(built: None) -> Iterator[None]:
    """No cluster, before and after; tests with it run before all that share one."""
    del built
    node.down()
    yield
    node.down()


@pytest.fixture(scope="session")
def cluster(bare: None, image: Built) -> None:
    """A cluster with the image in it, and nothing deployed."""
    del bare
    images.load(image.name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Show what the programs and the daemon logged when a test fails."""
    report = yield
    if call.excinfo is not None and call.when == "call":
        for name in _LOGS:
            report.sections.append((f"log of {name}", processes.tail(name, 30)))
        report.sections.append(("log of the daemon", _daemon_log()))
    return report


def _daemon_log() -> str:
    try:
        pods = get(*NAMESPACE, "pods")["items"]
        names = [pod["metadata"]["name"] for pod in pods]
        return "\n".join(kubectl(*NAMESPACE, "logs", name, "--tail=60") for name in names)
    except ClusterError as error:
        return str(error)


@pytest.fixture(scope="session")
def followed(
    cluster: None, tmp_path_factory: pytest.TempPathFactory, figure: Figures
) -> list[Step]:
    """The README's Deploy section, followed: the daemon serves a simulated machine."""
    del cluster
    began = time.monotonic()
    steps = readme.follow(tmp_path_factory.mktemp("readme"))
    figure("README's Deploy section, from the first command to the last", _seconds(began))
    return steps


@pytest.fixture
def deployed(followed: list[Step]) -> Iterator[None]:
    """The deployed daemon over eight simulated GPUs that are well, served whole."""
    del followed
    product.configure(WHOLE)
    product.offers(8)
    yield
    kubectl("delete", "pod,job", "-l", "made-by=tests", "--force", "--grace-period=0")


def _seconds(began: float) -> str:
    return f"{time.monotonic() - began:.1f} s"
