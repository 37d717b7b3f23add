"""What every vendor owes to the rest, whoever wrote it."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import get_args

import pytest

from deviceplugin import backend, sources, vendors
from deviceplugin.allocation.allocate import allocate
from deviceplugin.allocation.preferred import preferred
from deviceplugin.backend import Backend, BackendOptions, BackendUnavailableError, Source
from deviceplugin.config.load import default_config
from deviceplugin.events import ConfigAccepted, Event, Scanned, SourceFailed, Symptom
from deviceplugin.inventory import Inventory, apply
from deviceplugin.model import BackendState, ContainerEdits, ResourceView, UnitId
from deviceplugin.sharing import engine
from deviceplugin.sharing.drain import Listing
from deviceplugin.sharing.vendor import of as vendor_of

IO = ("open", "os.listdir", "os.scandir", "socket.connect", "subprocess.Popen", "ctypes.dlopen")


class Ear:
    """Hears what touches the system; an audit hook can never be taken out, only closed."""

    heard: list[str] | None = None

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        """Note the event while open."""
        if self.heard is not None and event in IO:
            self.heard.append(f"{event} {arguments[:1]}")


EAR = Ear()
sys.addaudithook(EAR)


@contextmanager
def listening() -> Iterator[list[str]]:
    """Collect what touches the system meanwhile."""
    heard: list[str] = []
    EAR.heard = heard
    try:
        yield heard
    finally:
        EAR.heard = None


def view_of(subject: Backend) -> ResourceView:
    """Plan what the backend finds, under its default config."""
    config = default_config(subject.vendor)
    scanned = Scanned(scan=subject.discover(), seconds=0.0, at=1.0)
    inventory = apply(Inventory(), ConfigAccepted(config=config, text="", at=0.0))
    inventory = apply(inventory, scanned)
    outcome = engine.advance(inventory, Listing(), 1.0, vendor_of(subject))
    (view,) = outcome.views.values()
    return view


def test_is_found(vendor: str) -> None:
    """A module in the folder of vendors is known by its name, and has a line about itself."""
    assert vendor in backend.known()
    assert backend.load(vendor).__doc__


def test_is_a_backend(vendor: str, subject: Backend) -> None:
    """It offers what the protocol asks for, and bears its module's name."""
    assert isinstance(subject, Backend)
    assert subject.vendor == vendor


def test_creating_does_no_io(vendor: str, options: BackendOptions) -> None:
    """Making a backend touches neither file nor library nor process."""
    module = backend.load(vendor)
    with listening() as heard:
        module.create(options)
    assert heard == []


def test_import_is_light(vendor: str) -> None:
    """Importing the vendor loads neither its library nor gRPC, so that it can wait cheaply."""
    heavy = "{'grpc', 'pynvml', 'amdsmi', 'pyroute2', 'prometheus_client', 'rich'}"
    folder = f"import sys, deviceplugin.vendors as all; all.__path__ = {list(vendors.__path__)}"
    code = f"{folder}; import deviceplugin.vendors.{vendor}; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_scan_is_sound(subject: Backend) -> None:
    """Devices are sorted, have ids of their own, full resource names and legal facts."""
    devices = subject.discover().devices
    assert len(devices) > 1
    assert [device.index for device in devices] == sorted(device.index for device in devices)
    assert len({device.id for device in devices}) == len(devices)
    for device in devices:
        assert "::" not in device.id, "the separator of shares"
        domain, _, name = device.resource.partition("/")
        assert domain
        assert name
        assert device.numa_node is None or device.numa_node >= 0
        assert all(node.startswith("/dev/") for node in device.nodes)
        assert device.pci_address is None or device.pci_address == device.pci_address.lower()


def test_scan_repeats(subject: Backend) -> None:
    """Two looks at the same machine see the same: an equal scan publishes nothing."""
    assert subject.discover() == subject.discover()


def test_no_driver_is_a_state(bare: Backend) -> None:
    """Without its driver it says in which state it is and why, each time it is asked."""
    for _ in range(2):
        with pytest.raises(BackendUnavailableError) as caught:
            bare.discover()
        assert caught.value.state in BackendState
        assert caught.value.state not in (BackendState.STARTING, BackendState.READY)
        assert caught.value.detail


@pytest.mark.parametrize("machine", ["subject", "bare"])
def test_sources_run_and_stop(vendor: str, machine: str, request: pytest.FixtureRequest) -> None:
    """Background work has names of its own, tells only events, and ends soon when told to."""
    subject: Backend = request.getfixturevalue(machine)
    works = tuple(subject.sources())
    assert all(isinstance(work, Source) for work in works)
    assert len({work.name for work in works}) == len(works)
    assert all(work.name.startswith(vendor) for work in works)
    events: list[Event] = []
    stop = threading.Event()
    if machine == "subject":
        subject.discover()
    threads = [sources.start(work, events.append, stop) for work in works]
    deadline = time.monotonic() + (5.0 if machine == "subject" else 0.3)
    while not events and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    assert sources.join(threads, 2.0) == ()
    assert all(isinstance(event, get_args(Event)) for event in events)
    assert not any(isinstance(event, SourceFailed) for event in events)
    assert not any(isinstance(event, Symptom) for event in events), "the machine is well"


def test_delivery_is_pure(subject: Backend) -> None:
    """Choosing and using a delivery touches nothing, and equal questions get equal answers."""
    config, devices = default_config(subject.vendor), subject.discover().devices
    with listening() as heard:
        delivery = subject.delivery(config, devices[0].resource, devices)
        edits = delivery.edits(devices)
    assert heard == []
    assert subject.delivery(config, devices[0].resource, list(devices)) == delivery
    assert delivery.edits(list(devices)) == edits
    with pytest.raises(FrozenInstanceError):
        delivery.unmet = "changed"  # type: ignore[misc]


def test_edits_hold_nothing_twice(subject: Backend) -> None:
    """Each mount and node of a container comes once, with absolute paths."""
    devices = subject.discover().devices
    config = default_config(subject.vendor)
    edits = subject.delivery(config, devices[0].resource, devices).edits(devices)
    assert edits != ContainerEdits()
    assert edits | edits == edits
    paths = [node.container_path for node in edits.device_nodes]
    assert len(set(paths)) == len(paths)
    assert all(Path(node.host_path).is_absolute() for node in edits.device_nodes)
    assert all(set(node.permissions) <= set("rw") for node in edits.device_nodes)


def test_edits_differ_by_device(subject: Backend) -> None:
    """What one device's container gets tells it from another's."""
    first, second, *_ = subject.discover().devices
    delivery = subject.delivery(default_config(subject.vendor), first.resource, (first, second))
    assert delivery.edits((first,)) != delivery.edits((second,))


def test_served_from_end_to_end(subject: Backend) -> None:
    """What it finds is planned, preferred and allocated without another line of code."""
    view = view_of(subject)
    ids: list[UnitId] = [unit.id for unit in view.units]
    assert all(unit.healthy for unit in view.units)
    chosen = preferred(view, ids, [], 2)
    assert len(chosen) == 2
    (both,) = allocate(view, [chosen])
    assert both == view.delivery.edits(
        [view.devices[view.unit_by_id[id_].device] for id_ in chosen]
    )
    for id_ in ids:
        assert allocate(view, [[id_]]) == allocate(view, [[id_]])
