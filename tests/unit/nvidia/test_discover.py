"""What one look at the GPUs reports."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.backend import BackendOptions, BackendUnavailableError, Configurable
from deviceplugin.config.nvidia_options import NvidiaFlags
from deviceplugin.config.rules import Config
from deviceplugin.events import Scan
from deviceplugin.model import BackendState
from deviceplugin.vendors.nvidia import create
from deviceplugin.vendors.nvidia.discover import Surroundings, enumerate_gpus, unavailable
from deviceplugin.vendors.nvidia.door import Code, GpuInfo, NvmlError
from deviceplugin.vendors.nvidia.health import Health, Timing
from deviceplugin.vendors.nvidia.nvidia_backend import NvidiaBackend

MakeGpu = Callable[..., GpuInfo]


def scan(node: Any, nvml: Any) -> Scan:
    """One look."""
    return Surroundings(options=node.options).scan(enumerate_gpus(nvml))


def test_gpu_alone(node: Any, nvml: Any) -> None:
    """Without sysfs, /dev and CDI specs a GPU is what NVML says, and nothing is invented."""
    found = scan(node, nvml)
    first = found.devices[0]
    assert (first.id, first.resource, first.index) == ("GPU-0", "nvidia.com/gpu", 0)
    assert (first.numa_node, first.nodes, first.cdi_names) == (None, (), ())
    assert first.attributes == {"minor": "0", "memory_mib": "81559"}
    assert found.bus is None


def test_facts_beside_nvml(node: Any, nvml: Any) -> None:
    """NUMA node, device nodes and CDI names come from the file system."""
    node.pci("0000:10:00.0", numa_node="1")
    for name in ("nvidiactl", "nvidia-uvm", "nvidia0"):
        node.write(f"dev/{name}")
    node.write(
        "run/cdi/nvidia.yaml", "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: '0'}]\n"
    )
    first, second, *_ = scan(node, nvml).devices
    assert first.numa_node == 1
    assert first.nodes == ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0")
    assert first.cdi_names == ("nvidia.com/gpu=0",)
    assert (second.nodes, second.cdi_names) == ((), ())


def test_simulated_node(node: Any, nvml: Any) -> None:
    """A simulated machine names what stands in for its device nodes on the host."""
    options = node.options
    options = type(options)(sysfs=options.sysfs, devfs=options.devfs, host_node="/dev/null")
    found = Surroundings(options=options).scan(enumerate_gpus(nvml))
    assert found.devices[0].attributes["host_node"] == "/dev/null"


@pytest.mark.parametrize("name", ["DGX Display", "NVIDIA DGX Display"])
def test_display_card_is_skipped(node: Any, nvml: Any, make_gpu: MakeGpu, name: str) -> None:
    """A display card is no device, and the bus does not count it as one that is missing."""
    nvml.gpus[1] = make_gpu(1, name=name)
    for n in range(4):
        node.pci(f"0000:{16 + n:02x}:00.0", **{"class": "0x030000"})
    found = scan(node, nvml)
    assert [device.index for device in found.devices] == [0, 2, 3]
    assert found.bus == {device.pci_address for device in found.devices}


def test_gpu_in_mig_mode(node: Any, nvml: Any, make_gpu: MakeGpu) -> None:
    """A GPU in MIG mode is not served whole, is named, and is not waited for."""
    nvml.gpus[1] = make_gpu(1, mig_enabled=True)
    nvml.gpus[2] = make_gpu(2, mig_enabled=False)
    for n in range(4):
        node.pci(f"0000:{16 + n:02x}:00.0")
    found = scan(node, nvml)
    assert [device.index for device in found.devices] == [0, 2, 3]
    assert found.bus == {device.pci_address for device in found.devices}
    assert found.problems[0].startswith("GPU 1 (GPU-1) is not served: its MIG mode is on")


@pytest.mark.parametrize("code", [Code.GPU_IS_LOST, Code.UNKNOWN, Code.NOT_SUPPORTED])
def test_one_gpu_fails_alone(node: Any, nvml: Any, code: Code) -> None:
    """A GPU that cannot be read is one problem; the others are found."""
    nvml.errors["gpu 2"] = code
    found = scan(node, nvml)
    assert [device.index for device in found.devices] == [0, 1, 3]
    assert found.problems == (f"GPU 2: gpu 2: NVML error (code {int(code)})",)


def test_all_gpus_lost(node: Any, nvml: Any) -> None:
    """When each GPU is said to be lost, that is believed of each."""
    nvml.errors = {f"gpu {n}": Code.GPU_IS_LOST for n in range(4)}
    found = scan(node, nvml)
    assert found.devices == ()
    assert len(found.problems) == 4


@pytest.mark.parametrize(
    "errors",
    [
        pytest.param({"gpu 3": Code.UNINITIALIZED}, id="one code that speaks of the driver"),
        pytest.param({f"gpu {n}": Code.UNKNOWN for n in range(4)}, id="every GPU, no reason"),
        pytest.param({"count": Code.UNKNOWN}, id="not even a count"),
    ],
)
def test_driver_as_a_whole(nvml: Any, errors: dict[str, int]) -> None:
    """A driver that answers nobody says nothing about any GPU."""
    nvml.errors = errors
    with pytest.raises(NvmlError):
        enumerate_gpus(nvml)


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (Code.LIBRARY_NOT_FOUND, BackendState.NO_LIBRARY),
        (Code.DRIVER_NOT_LOADED, BackendState.NO_DRIVER),
        (Code.LIB_RM_VERSION_MISMATCH, BackendState.DRIVER_MISMATCH),
        (Code.UNKNOWN, BackendState.MONITOR_LOST),
        (12345, BackendState.MONITOR_LOST),
    ],
    ids=str,
)
def test_states(code: int, state: BackendState) -> None:
    """Each error of the driver as a whole is a named state that says what to do."""
    error = unavailable(NvmlError(code, "nvmlInit"))
    assert error.state is state
    assert "; " in error.detail


class TestBackend:
    """The backend over a driver in memory."""

    @pytest.fixture
    def backend(self, node: Any, nvml: Any) -> NvidiaBackend:
        """A backend that no thread works for."""
        return NvidiaBackend(
            options=node.options, door=nvml, health=Health(timing=Timing(), clock=lambda: 0.0)
        )

    def test_create_does_nothing(self, node: Any) -> None:
        """Making the backend of a node without any driver touches nothing."""
        backend = create(node.options)
        assert backend.vendor == "nvidia"
        assert [source.name for source in backend.sources()] == [
            "nvidia-watchdog",
            "nvidia-events",
            "nvidia-poll",
        ]

    @pytest.mark.parametrize(
        ("given", "looked"),
        [
            pytest.param(None, ["/driver-root", "/run/nvidia"], id="the config says where"),
            pytest.param("/mine", ["/mine", "/mine"], id="the command line outranks it"),
        ],
    )
    def test_driver_root(self, node: Any, given: str | None, looked: list[str]) -> None:
        """The library is looked for under the root of the config in force, or the flag's."""
        root = Path(given) if given else None
        options = BackendOptions(sysfs=node.options.sysfs, driver_root=root)
        backend = create(options)
        assert isinstance(backend, Configurable)
        words = []
        for flags in (NvidiaFlags(), NvidiaFlags(container_driver_root="/run/nvidia")):
            backend.configure(Config(flags=flags))
            with pytest.raises(BackendUnavailableError) as caught:
                backend.discover()
            words.append(caught.value.detail)
        assert all(f"under {path} " in text for path, text in zip(looked, words, strict=True))

    def test_stays_open(self, backend: NvidiaBackend, nvml: Any) -> None:
        """Scans that go well share one session."""
        assert backend.discover() == backend.discover()
        assert nvml.opened == 1

    def test_no_gpu_anywhere(self, backend: NvidiaBackend, nvml: Any) -> None:
        """No GPU in NVML and none on the bus is a state of its own."""
        nvml.gpus = []
        with pytest.raises(BackendUnavailableError) as caught:
            backend.discover()
        assert caught.value.state is BackendState.NO_DEVICES

    def test_gpus_on_the_bus_only(self, backend: NvidiaBackend, node: Any, nvml: Any) -> None:
        """GPUs that only the bus shows are reported as such, so that they can be waited for."""
        nvml.gpus = []
        node.pci("0000:10:00.0")
        assert backend.discover() == Scan(bus=frozenset({"0000:10:00.0"}))

    def test_last_gpu_taken_out(self, backend: NvidiaBackend, nvml: Any) -> None:
        """A node that loses its last GPU reports the empty list before it waits for others."""
        backend.discover()
        nvml.gpus = []
        assert backend.discover().devices == ()

    def test_watches_lost_gpus(self, backend: NvidiaBackend, node: Any, nvml: Any) -> None:
        """A GPU that was lost is watched for its return; one that was taken out is not."""
        for n in range(4):
            node.pci(f"0000:{16 + n:02x}:00.0")
        backend.discover()
        nvml.errors = {"gpu 1": Code.GPU_IS_LOST, "gpu 2": Code.GPU_IS_LOST}
        node.root.joinpath("sys/bus/pci/devices/0000:12:00.0").rename(node.root / "out")
        backend.discover()
        assert backend.health.watched.value == ("GPU-0", "GPU-3", "GPU-1")

    def test_reload_counts_once(self, backend: NvidiaBackend, nvml: Any) -> None:
        """A driver that was away, and looked for several times, was loaded anew once."""
        nvml.errors = {"open": Code.DRIVER_NOT_LOADED}
        for _ in range(3):
            with pytest.raises(BackendUnavailableError):
                backend.discover()
        nvml.errors = {}
        backend.discover()
        backend.discover()
        assert backend.health.reloads == 1

    def test_lost_monitor_is_no_reload(self, backend: NvidiaBackend, nvml: Any) -> None:
        """A monitor that was lost and found says nothing about the GPUs."""
        nvml.errors = {"open": Code.UNKNOWN}
        with pytest.raises(BackendUnavailableError):
            backend.discover()
        nvml.errors = {}
        backend.discover()
        assert backend.health.reloads == 0
