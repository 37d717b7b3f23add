"""What this project says of a real GPU, against what the driver's own tool says."""

import errno
import os
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from deviceplugin import sources
from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc
from deviceplugin.config.load import default_config
from deviceplugin.events import BackendChanged, Event, SeenGood, SourceFailed, Symptom
from deviceplugin.model import BackendState
from deviceplugin.simulation.kubelet import Pod
from deviceplugin.vendors.nvidia.nvidia_backend import NvidiaBackend

GPU = "nvidia.com/gpu"

NOT_OURS = (errno.EACCES, errno.EPERM)

# Without persistence mode each first look brings the GPUs up, which takes seconds for each.
pytestmark = pytest.mark.timeout(150)


def test_devices_match_nvidia_smi(smi: list[Any], backend: NvidiaBackend) -> None:
    """Ids, names, indexes, addresses, minors and memory are those of nvidia-smi."""
    devices = {device.index: device for device in backend.discover().devices}
    assert sorted(devices) == [gpu.index for gpu in smi if gpu.served]
    for gpu in smi:
        if not gpu.served:
            continue
        device = devices[gpu.index]
        assert device.id == gpu.text("uuid")
        assert device.name == gpu.text("product_name")
        assert device.pci_address == gpu.address
        assert device.attributes["minor"] == gpu.text("minor_number")
        total = gpu.text("fb_memory_usage/total").removesuffix(" MiB")
        if total.isdigit():  # "N/A" where memory is the host's
            # nvidia-smi rounds, and newer ones count reserved memory apart.
            assert abs(int(device.attributes["memory_mib"]) - int(total)) <= 1


def test_every_gpu_is_accounted_for(smi: list[Any], backend: NvidiaBackend) -> None:
    """A GPU is served or named with the reason; what the bus shows is what is served."""
    scan = backend.discover()
    assert len(scan.problems) == sum(gpu.text("mig_mode/current_mig") == "Enabled" for gpu in smi)
    if scan.bus:  # a sandbox may show GPUs and no PCI bus
        assert {device.pci_address for device in scan.devices} <= scan.bus


def test_numa_nodes_match_sysfs(backend: NvidiaBackend) -> None:
    """A GPU's node is the one of its PCI device, and unknown where sysfs says so."""
    for device in backend.discover().devices:
        file = Path("/sys/bus/pci/devices") / str(device.pci_address) / "numa_node"
        said = int(file.read_text()) if file.exists() else -1
        cpus = Path(f"/sys/devices/system/node/node{said}/cpulist")
        known = said >= 0 and bool(cpus.exists() and cpus.read_text().strip())
        assert device.numa_node == (said if known else None)


def test_scan_repeats(backend: NvidiaBackend) -> None:
    """A scan of a machine at rest is equal to the one before: it publishes nothing."""
    assert backend.discover() == backend.discover()


def test_driver_and_library(smi: list[Any], backend: NvidiaBackend) -> None:
    """The library that was loaded is a file, and belongs to the driver that runs."""
    backend.discover()
    assert Path(backend.door.library()).is_file()
    assert backend.door.driver_version()
    assert len(smi) == backend.door.count()


def test_recovery_action_matches(smi: list[Any], backend: NvidiaBackend) -> None:
    """Where nvidia-smi tells the recovery action, the field we read says the same."""
    backend.discover()
    for gpu in smi:
        ours = backend.door.recovery_action(gpu.text("uuid"))
        theirs = gpu.text("gpu_recovery_action")
        if theirs == "None":
            assert ours in (0, None)
        elif theirs not in ("", "N/A"):
            assert ours


def test_registers_for_events(smi: list[Any], backend: NvidiaBackend) -> None:
    """Every GPU takes a registration, and a wait without events ends at its time limit."""
    backend.discover()
    events = backend.door.events([gpu.text("uuid") for gpu in smi])
    began = time.monotonic()
    event = events.wait(200)
    spent = time.monotonic() - began
    events.close()
    assert event is not None or 0.15 < spent < 2.0


def test_health_at_rest(backend: NvidiaBackend) -> None:
    """Five seconds of polling find every GPU good, and no source fails."""
    devices = {device.id for device in backend.discover().devices}
    seen: list[Event] = []
    stop = threading.Event()
    threads = [sources.start(each, seen.append, stop) for each in backend.sources()]
    stop.wait(5.0)
    stop.set()
    assert sources.join(threads, 5.0) == ()
    assert {event.device for event in seen if isinstance(event, SeenGood)} == devices
    assert [event for event in seen if isinstance(event, (Symptom, SourceFailed))] == []
    states = {event.state for event in seen if isinstance(event, BackendChanged)}
    assert states <= {BackendState.READY}


def test_device_nodes_open(backend: NvidiaBackend) -> None:
    """Each device node of an answer is a character device that can be opened as it is given."""
    devices = backend.discover().devices
    delivery = backend.delivery(default_config("nvidia"), devices[0].resource, devices)
    nodes = delivery.edits(devices).device_nodes
    if not nodes:
        pytest.skip("no device node of the driver is visible here: none is handed out")
    assert f"/dev/nvidia{devices[0].attributes['minor']}" in {node.host_path for node in nodes}
    for node in nodes:
        assert Path(node.host_path).is_char_device()
        _open(node.host_path)


def test_serves_a_kubelet(served: Any) -> None:
    """A pod for one GPU and then one for all of them get exactly those, and give them back."""
    pods = (Pod.asking("one", **{GPU: 1}), Pod.asking("all", **{GPU: served.expected}))
    for number, pod in zip((1, served.expected), pods, strict=True):
        admission = served.kubelet.admit(pod)
        assert admission.admitted, admission.message
        given = admission.devices["main"][GPU]
        assert len(given) == number
        listed = admission.edits["main"].env["NVIDIA_VISIBLE_DEVICES"].split(",")
        assert sorted(listed) == sorted(given)
        served.kubelet.remove(pod.name)


def test_stays_healthy(served: Any) -> None:
    """For ten seconds no GPU turns Unhealthy under the daemon's eyes."""
    bad = served.kubelet.wait(
        lambda: served.kubelet.allocatable().get(GPU) != served.expected, 10.0
    )
    assert not bad, served.kubelet.devices(GPU)


def test_figures_of_the_driver(backend: NvidiaBackend, figures: Any) -> None:
    """How long the driver takes for what we ask of it again and again."""
    began = time.monotonic()
    devices = backend.discover().devices
    figures.add("first_scan_ms", (time.monotonic() - began) * 1000)
    figures.add("rescan_ms", _median_ms(backend.discover, 10))
    if devices:
        uuid = str(devices[0].id)
        figures.add("check_ms", _median_ms(lambda: backend.door.check(uuid), 50))
        figures.add("recovery_ms", _median_ms(lambda: backend.door.recovery_action(uuid), 50))
        # A poll of the whole machine must leave most of its second to others.
        poll = len(devices) * (figures.values["check_ms"] + figures.values["recovery_ms"])
        assert poll < 500


def test_figures_of_the_daemon(served: Any, figures: Any) -> None:
    """Allocate over a real socket, and what the daemon costs while nothing happens."""
    (socket,) = served.kubelet.plugin_dir.glob("nvidia*.sock")
    id_ = next(iter(served.kubelet.devices(GPU)))
    request = api_pb2.AllocateRequest(
        container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=[id_])]
    )
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        plugin = api_pb2_grpc.DevicePluginStub(channel)
        figures.add(
            "allocate_p50_ms", _median_ms(lambda: plugin.Allocate(request, timeout=5), 1000)
        )
    seconds = 10.0
    before = _cpu_seconds(served.pid)
    threading.Event().wait(seconds)
    figures.add("idle_cpu_percent", (_cpu_seconds(served.pid) - before) / seconds * 100)
    figures.add("resident_mb", _resident_mb(served.pid))
    assert figures.values["allocate_p50_ms"] < 5
    assert figures.values["idle_cpu_percent"] < 5


def _open(path: str) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in NOT_OURS:
            pytest.skip(f"{path} is not for this user: {error.strerror}")
        raise


def _median_ms(work: Callable[[], object], times: int) -> float:
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent) * 1000


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
