"""The whole daemon, as a process, over a library with NVML's binary interface."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc
from deviceplugin.simulation.kubelet import SimulatedKubelet

GPU = "nvidia.com/gpu"

Run = Callable[..., AbstractContextManager[subprocess.Popen[bytes]]]


@pytest.fixture
def kubelet() -> Iterator[SimulatedKubelet]:
    """A kubelet in a folder short enough for sockets."""
    with (
        tempfile.TemporaryDirectory(prefix="dp") as folder,
        SimulatedKubelet(Path(folder)) as kubelet,
    ):
        yield kubelet


@pytest.fixture
def run(fake: Any, kubelet: SimulatedKubelet, tmp_path: Path) -> Run:
    """Run the daemon over the library."""
    root = kubelet.plugin_dir.parent
    command = [sys.executable, "-m", "deviceplugin", "run", "nvidia"]
    folders = {
        "--plugin-dir": kubelet.plugin_dir,
        "--pod-resources": kubelet.pod_resources,
        "--state-dir": root / "state",
        "--config": root / "nvidia.yaml",
        "--nvml-library": fake.library,
        "--sysfs": tmp_path / "sys",
        "--devfs": tmp_path / "dev",
    }

    @contextmanager
    def start(*more: str) -> Iterator[subprocess.Popen[bytes]]:
        arguments = [str(word) for pair in folders.items() for word in pair]
        process = subprocess.Popen(
            [*command, *arguments, "--metrics-address=", *more],
            env={**os.environ, "FAKENVML_DIR": str(fake.folder)},
        )
        try:
            yield process
        finally:
            process.terminate()
            assert process.wait(10) == 0

    return start


def allocatable(kubelet: SimulatedKubelet, number: int, timeout: float = 15.0) -> None:
    """Wait until the kubelet has so many GPUs to give."""
    assert kubelet.wait(lambda: kubelet.allocatable().get(GPU) == number, timeout)


def test_serves_a_kubelet(fake: Any, kubelet: SimulatedKubelet, run: Run) -> None:
    """Sixteen GPUs reach the kubelet; an XID takes one of them away, and a loss another."""
    with run():
        allocatable(kubelet, 16)
        fake.event("GPU-00000005", 0x8, 79)
        allocatable(kubelet, 15)
        assert kubelet.devices(GPU)["GPU-00000005"] == "Unhealthy"
        lost = time.monotonic()
        fake.change(6, status="lost")
        allocatable(kubelet, 14)
        assert time.monotonic() - lost < 1.5


def test_driver_that_appears_later(fake: Any, kubelet: SimulatedKubelet, run: Run) -> None:
    """A driver that is loaded after our start is served within five seconds, in one process."""
    fake.set(driver="none")
    with run() as process:
        # After the fifth try comes the longest of the pauses.
        fake.until(lambda: fake.calls("nvmlInitWithFlags") >= 5, 20)
        fake.set(driver="580.95.05")
        allocatable(kubelet, 16, 5.0)
        assert process.poll() is None


def test_driver_that_is_unloaded(fake: Any, kubelet: SimulatedKubelet, run: Run) -> None:
    """Without its driver no GPU works; when the driver is back they do, within five seconds."""
    with run() as process:
        allocatable(kubelet, 16)
        fake.set(driver="none")
        allocatable(kubelet, 0)
        assert kubelet.capacity()[GPU] == 16
        fake.set(driver="580.95.05")
        allocatable(kubelet, 16, 5.0)
        assert process.poll() is None


def test_driver_replaced(fake: Any, kubelet: SimulatedKubelet, run: Run) -> None:
    """A library that no longer fits the driver cannot judge: the GPUs keep their verdict."""
    with run("--timing", "rescan=0.3", "--timing", "driver-retry=0.5"):
        allocatable(kubelet, 16)
        tried = fake.calls("nvmlInitWithFlags")
        fake.set(driver="999.1")
        fake.until(lambda: fake.calls("nvmlInitWithFlags") >= tried + 4)
        assert kubelet.allocatable()[GPU] == 16
        fake.set(driver="580.95.05")
        created = fake.calls("nvmlEventSetCreate")
        fake.until(lambda: fake.calls("nvmlEventSetCreate") > created)
        assert kubelet.allocatable()[GPU] == 16


def test_allocate_calls_no_driver(fake: Any, kubelet: SimulatedKubelet, run: Run) -> None:
    """A thousand Allocates make no call to NVML, and no thread but ours ever calls it.

    1. 1,000 Allocates and as many preferences are asked; calls and time are measured.
    2. For the same time nobody asks anything.
    3. There were no more calls before than now (a poll more may fall into either time).
    4. The calls all come from the scan, the events and the poll.
    """
    with run("--timing", "rescan=3600"):
        allocatable(kubelet, 16)
        fake.until(lambda: len(fake.threads()) == 3)
        threads, round_of_polls = fake.threads(), 2 * 16
        seconds, busy = _calls_during(fake, lambda: _allocate(kubelet.plugin_dir, 1000))
        _, idle = _calls_during(fake, lambda: time.sleep(seconds))
        assert busy <= idle + round_of_polls + 4
        assert fake.threads() == threads


def test_hanging_driver_delays_no_allocate(fake: Any, kubelet: SimulatedKubelet, run: Run) -> None:
    """While every call to the driver hangs, Allocate answers as ever."""
    with run():
        allocatable(kubelet, 16)
        fake.set("delay nvmlDeviceGetMemoryInfo 600000")
        asked = fake.calls("nvmlDeviceGetMemoryInfo")
        fake.until(lambda: fake.calls("nvmlDeviceGetMemoryInfo") > asked)
        began = time.monotonic()
        _allocate(kubelet.plugin_dir, 100)
        assert time.monotonic() - began < 2.0
        assert kubelet.allocatable()[GPU] == 16


def _calls_during(fake: Any, work: Callable[[], None]) -> tuple[float, int]:
    began, before = time.monotonic(), sum(fake.counters().values())
    work()
    return time.monotonic() - began, sum(fake.counters().values()) - before


def _allocate(plugin_dir: Path, times: int) -> None:
    (socket,) = (path for path in plugin_dir.glob("nvidia*.sock"))
    request = api_pb2.AllocateRequest(
        container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=["GPU-00000001"])]
    )
    preference = api_pb2.PreferredAllocationRequest(
        container_requests=[
            api_pb2.ContainerPreferredAllocationRequest(
                available_deviceIDs=[f"GPU-{n:08d}" for n in range(16)], allocation_size=4
            )
        ]
    )
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        plugin = api_pb2_grpc.DevicePluginStub(channel)
        for _ in range(times):
            (answer,) = plugin.Allocate(request, timeout=5).container_responses
            assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-00000001"
            plugin.GetPreferredAllocation(preference, timeout=5)
