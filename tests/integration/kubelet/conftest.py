"""A simulated kubelet of either era, and our kubelet side with lowered bounds."""

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest

from deviceplugin.api.v1beta1 import api_pb2_grpc
from deviceplugin.events import Event, RegistrationTried
from deviceplugin.kubelet.manager import KubeletSide
from deviceplugin.kubelet.options import KubeletOptions
from deviceplugin.model import (
    AllocationRules,
    ContainerEdits,
    Device,
    DeviceId,
    DeviceNode,
    ResourceName,
    ResourceView,
    Unit,
    UnitId,
    Views,
)
from deviceplugin.published import Published
from deviceplugin.simulation.kubelet import SimulatedKubelet

GPU = ResourceName("nvidia.com/gpu")
ERAS = ("1.36", "1.37")

T = TypeVar("T", bound=Event)


@dataclass(frozen=True)
class EnvDelivery:
    """Hands out an env variable and a node for each device."""

    unmet: str = ""

    def edits(self, devices: Sequence[Device]) -> ContainerEdits:
        """Name the devices."""
        nodes = [DeviceNode(container_path=f"/dev/{d.id}", host_path="/dev/null") for d in devices]
        return ContainerEdits(
            env={"GPUS": ",".join(device.id for device in devices)}, device_nodes=tuple(nodes)
        )


class BrokenDelivery(EnvDelivery):
    """A delivery with a programming error."""

    def edits(self, devices: Sequence[Device]) -> ContainerEdits:
        """Fail."""
        raise ZeroDivisionError(len(devices))


def gpu_view(
    count: int = 8,
    *,
    unhealthy: Sequence[int] = (),
    name: ResourceName = GPU,
    delivery: EnvDelivery | None = None,
    rules: AllocationRules | None = None,
) -> ResourceView:
    """Make a resource of whole GPUs, ``gpu-0`` and so on."""
    ids = [DeviceId(f"gpu-{n}") for n in range(count)]
    return ResourceView(
        name=name,
        units=tuple(
            Unit(id=UnitId(each), device=each, healthy=n not in unhealthy)
            for n, each in enumerate(ids)
        ),
        devices={each: Device(id=each, resource=name, index=n) for n, each in enumerate(ids)},
        delivery=delivery or EnvDelivery(),
        rules=rules or AllocationRules(),
    )


class Record:
    """Every event that was emitted, with a way to wait for one."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._changed = threading.Condition()

    def emit(self, event: Event) -> None:
        """Append; what the kubelet side is given."""
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

    def of(self, kind: type[T]) -> list[T]:
        """All events of a kind, oldest first."""
        with self._changed:
            return [event for event in self._events if isinstance(event, kind)]

    def wait(self, condition: Callable[[], object], timeout: float = 10.0) -> bool:
        """Wait until the condition holds; looked at with each event."""
        deadline = time.monotonic() + timeout
        while not condition():
            with self._changed:
                if not self._changed.wait(0.02) and time.monotonic() > deadline:
                    return False
        return True


class Rig:
    """A kubelet, a kubelet side of ours, and what it emitted."""

    def __init__(self, kubelet: SimulatedKubelet, **changes: Any) -> None:
        self.kubelet = kubelet
        self.record = Record()
        self.views: Published[Views] = Published({GPU: gpu_view()})
        settings: Mapping[str, Any] = {
            "vendor": "nvidia",
            "plugin_dir": kubelet.plugin_dir,
            "stream_pause": 0.05,
            "backoff_first": 0.02,
            "backoff_limit": 0.1,
            "look_every": 0.1,
            "holders_poll": 0.2,
            "holders_poll_draining": 0.05,
            "audit_settle": 0.1,
            "lock_poll": 0.02,
            **changes,
        }
        self.options = KubeletOptions(**settings)
        self.side = KubeletSide(self.options, self.views, self.record.emit)

    def up(self, count: int = 8) -> "Rig":
        """Start, serve what the views have, and wait until the kubelet counts it."""
        self.side.start()
        self.side.serve(list(self.views.value))
        assert self.allocatable(count)
        # The kubelet counts the list some moments before it answers Register.
        assert self.record.wait(self._all_registered)
        return self

    def _all_registered(self) -> bool:
        tried = self.record.of(RegistrationTried)
        return {event.resource for event in tried if not event.error} >= set(self.views.value)

    def show(self, *views: ResourceView) -> None:
        """Publish these views."""
        self.views.set({view.name: view for view in views})

    def allocatable(self, count: int, resource: str = GPU, timeout: float = 10.0) -> bool:
        """Wait until so many units can be had."""
        return self.kubelet.wait(lambda: self.kubelet.allocatable().get(resource) == count, timeout)

    def sockets(self) -> list[str]:
        """Names of our sockets that are on disk."""
        return sorted(path.name for path in self.kubelet.plugin_dir.glob("nvidia-*.sock"))

    @contextlib.contextmanager
    def plugin(self) -> Iterator[api_pb2_grpc.DevicePluginStub]:
        """Call the one socket that we serve, as a second client beside the kubelet."""
        (name,) = self.sockets()
        with dial(self.kubelet.plugin_dir / name) as stub:
            yield stub


@contextlib.contextmanager
def dial(path: Path) -> Iterator[api_pb2_grpc.DevicePluginStub]:
    """Call a plugin's socket."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"unix:{path}", options=options) as channel:
        yield api_pb2_grpc.DevicePluginStub(channel)


@pytest.fixture(scope="session")
def gpus() -> Callable[..., ResourceView]:
    """Make a resource of whole GPUs."""
    return gpu_view


@pytest.fixture(scope="session")
def broken_delivery() -> EnvDelivery:
    """A delivery with a programming error."""
    return BrokenDelivery()


@pytest.fixture(scope="session")
def call() -> Callable[[Path], contextlib.AbstractContextManager[api_pb2_grpc.DevicePluginStub]]:
    """Call a plugin's socket."""
    return dial


@pytest.fixture
def record() -> Record:
    """Events, for what is tested without a kubelet side."""
    return Record()


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="dp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=[pytest.param({"era": era}, id=era) for era in ERAS])
def kubelet(root: Path, request: pytest.FixtureRequest) -> Iterator[SimulatedKubelet]:
    """A running kubelet, of each era in turn, or as a test's parameters want it."""
    settings = {"rate_limited": False, **request.param}
    with SimulatedKubelet(root, **settings) as kubelet:
        yield kubelet


@pytest.fixture
def make_rig(kubelet: SimulatedKubelet) -> Iterator[Callable[..., Rig]]:
    """Make kubelet sides towards the one kubelet; each is stopped at the end."""
    made: list[Rig] = []

    def make(**changes: Any) -> Rig:
        made.append(Rig(kubelet, **changes))
        return made[-1]

    yield make
    for rig in made:
        rig.side.stop(2.0)


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    """A kubelet side that serves eight GPUs."""
    return make_rig().up()
