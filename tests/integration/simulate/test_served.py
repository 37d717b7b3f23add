"""The vendor's own code runs over a simulated machine, unchanged."""

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deviceplugin import backend
from deviceplugin.backend import Backend
from deviceplugin.config.load import default_config
from deviceplugin.events import Event, Symptom
from deviceplugin.simulation.driver import HOST_NODE, prepare
from deviceplugin.simulation.machine import Machine, find, shipped
from deviceplugin.simulation.machine_file import load

PATIENCE = 10.0
Make = Callable[[str], Backend]


@pytest.fixture
def control(tmp_path: Path) -> Path:
    """Where further steps are written."""
    return tmp_path / "control"


@pytest.fixture
def make(tmp_path: Path, control: Path) -> Make:
    """Make a vendor's backend over a shipped machine, NVIDIA's unless told otherwise."""

    def make(machine: str, vendor: str = "nvidia") -> Backend:
        options = prepare(
            machine, tmp_path / "machine", vendor=vendor, poll_seconds=0.1, control=control
        )
        return backend.load(vendor).create(options)

    return make


@pytest.fixture
def emitted() -> Iterator["queue.SimpleQueue[Event]"]:
    """Collect what the backend's sources emit."""
    return queue.SimpleQueue()


def _machine(name: str) -> Machine:
    return load(find(name))


NVIDIA = [name for name in shipped() if _machine(name).gpus["nvidia"]]
AMD = {
    "mi300x-spx": 8,
    "mi300x-cpx": 64,
    "mi300x-mixed": 5 + 3 * 8,
    "mi210x8": 8,
    "radeon": 1,
    "mixed": 2,
}


@pytest.mark.parametrize("name", [name for name in shipped() if _machine(name).gpus["amd"]])
def test_every_amd_machine_is_discovered(make: Make, name: str) -> None:
    """All GPUs or partitions are found under the addresses of the file, with nodes of their own."""
    amd = _machine(name).amd
    assert amd is not None
    scan = make(name, "amd").discover()
    assert len(scan.devices) == AMD[name]
    assert {d.pci_address for d in scan.devices} == {gpu.pci_address for gpu in amd.gpus}
    assert {(d.pci_address, d.numa_node, d.name) for d in scan.devices} == {
        (gpu.pci_address, gpu.numa_node, gpu.model) for gpu in amd.gpus
    }
    assert len({d.nodes for d in scan.devices}) == AMD[name]
    assert scan.problems == ()


@pytest.mark.parametrize("name", NVIDIA)
def test_every_shipped_machine_is_discovered(make: Make, name: str) -> None:
    """Discovery finds each GPU with its UUID, address, NUMA node and device nodes."""
    nvidia = _machine(name).nvidia
    assert nvidia is not None
    scan = make(name).discover()
    found = [(d.id, d.pci_address, d.numa_node, d.name) for d in scan.devices]
    assert found == [(g.uuid, g.pci_address, g.numa_node, g.model) for g in nvidia.gpus]
    assert scan.bus == {gpu.pci_address for gpu in nvidia.gpus}
    assert scan.problems == ()
    assert all(f"/dev/nvidia{gpu.minor}" in scan.devices[gpu.index].nodes for gpu in nvidia.gpus)


def test_containers_get_the_null_device(make: Make) -> None:
    """Each device node is handed out under its own name, with /dev/null behind it."""
    vendor = make("a100x4")
    devices = vendor.discover().devices
    delivery = vendor.delivery(default_config("nvidia"), devices[0].resource, devices)
    edits = delivery.edits(devices[:1])
    paths = {node.container_path: node.host_path for node in edits.device_nodes}
    assert "/dev/nvidia0" in paths
    assert set(paths.values()) == {HOST_NODE}


def test_a_bare_machine_has_no_driver(make: Make) -> None:
    """A machine without NVIDIA's library is the named state for that."""
    with pytest.raises(backend.BackendUnavailableError, match="no-library"):
        make("none").discover()


@pytest.mark.parametrize(
    ("line", "kind"), [("{xid: 79, gpu: 2}", "xid-79"), ("{lost: 2}", "lost")], ids=["xid", "lost"]
)
def test_steps_become_symptoms(
    make: Make, control: Path, emitted: "queue.SimpleQueue[Event]", line: str, kind: str
) -> None:
    """A line in the control file is a symptom of that GPU, through events or the poll."""
    vendor = make("a100x4")
    devices = vendor.discover().devices
    stop = threading.Event()
    threads = [
        threading.Thread(target=source.run, args=(emitted.put, stop), daemon=True)
        for source in vendor.sources()
    ]
    for thread in threads:
        thread.start()
    with control.open("a") as file:
        file.write(f"{line}\n")
    event = emitted.get(timeout=PATIENCE)
    while not isinstance(event, Symptom):
        event = emitted.get(timeout=PATIENCE)
    assert (event.device, event.kind) == (devices[2].id, kind)
    stop.set()
    for thread in threads:
        thread.join(PATIENCE)
