"""The door to NVML over a simulated driver (see ``vendors/nvidia/door.py``).

Used by several threads at once, as the real library. Hot-plug shows at once; the real
library shows it to whoever opens it anew.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from deviceplugin.simulation.gpu_driver import GpuDriver, Queue, nvml_error
from deviceplugin.simulation.machine import Machine
from deviceplugin.simulation.timeline import Step
from deviceplugin.vendors.nvidia.door import SWITCH, Code, GpuEvent, GpuInfo

_SWITCHED = {"A100-SXM": 12, "H100 80GB HBM3": 18, "H200": 18, "B200": 18}
"""NVLinks of GPUs that come on boards with switches, by a part of the model's name."""


class SimulatedNvml:
    """NVML on a machine; without an ``nvidia`` section there is not even the library.

    Attributes:
        on_open: called before each ``open``.

    """

    def __init__(self, machine: Machine, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._hardware = machine.nvidia
        self._driver = GpuDriver(machine.nvidia.gpus if machine.nvidia else (), clock=clock)
        self.on_open: Callable[[], None] = lambda: None

    def apply(self, step: Step) -> None:
        """Let a step happen to the driver now."""
        self._driver.apply(step)

    def open(self) -> None:
        """Open the driver."""
        self.on_open()
        if self._hardware is None:
            raise nvml_error(Code.LIBRARY_NOT_FOUND, "nvmlInit")
        self._driver.open()

    def close(self) -> None:
        """Close the driver."""
        self._driver.close()

    def library(self) -> str:
        """Return a word that cannot be taken for a file; "" while closed."""
        return "simulated" if self._driver.is_open else ""

    def driver_version(self) -> str:
        """Return what the machine's file says."""
        with self._driver.call("nvmlSystemGetDriverVersion"):
            return self._hardware.driver if self._hardware else ""

    def count(self) -> int:
        """Return the number of GPUs that are plugged in."""
        with self._driver.call("nvmlDeviceGetCount"):
            return len(self._driver.plugged())

    def gpu(self, index: int) -> GpuInfo:
        """Return a GPU, counted among those that are plugged in."""
        with self._driver.call("nvmlDeviceGetHandleByIndex"):
            plugged = self._driver.plugged()
        if index >= len(plugged):
            raise nvml_error(Code.INVALID_ARGUMENT, "nvmlDeviceGetHandleByIndex")
        gpu = plugged[index]
        with self._driver.call("nvmlDeviceGetHandleByIndex", gpu):
            return GpuInfo(
                index=index,
                uuid=gpu.uuid,
                minor=gpu.minor,
                name=gpu.model,
                pci_address=gpu.pci_address,
                memory_mib=gpu.memory_mib,
            )

    def check(self, uuid: str) -> None:
        """Raise NvmlError while the GPU does not answer."""
        with self._driver.call("nvmlDeviceGetPciInfo", self._driver.by_uuid(uuid)):
            return

    def recovery_action(self, uuid: str) -> int | None:
        """Return what the driver asks for; 0 for nothing."""
        gpu = self._driver.by_uuid(uuid)
        with self._driver.call("nvmlDeviceGetFieldValues", gpu):
            return self._driver.state.gpus[gpu.index].recovery

    def nvlinks(self, uuid: str) -> Mapping[str, int]:
        """Return links to switches, as many as boards with this model have."""
        gpu = self._driver.by_uuid(uuid)
        with self._driver.call("nvmlDeviceGetNvLinkState", gpu):
            count = next((n for word, n in _SWITCHED.items() if word in gpu.model), 0)
        return {SWITCH: count} if count else {}

    def events(self, uuids: Sequence[str]) -> "SimulatedEventSet":
        """Return a new event set with these GPUs."""
        with self._driver.call("nvmlEventSetCreate"):
            events = SimulatedEventSet(self._driver)
        for uuid in uuids:
            events.register(uuid)
        return events


class SimulatedEventSet:
    """An event set: gets the events of the GPUs that are registered with it."""

    def __init__(self, driver: GpuDriver) -> None:
        self._driver = driver
        self._registered: set[int] = set()
        self._queue = Queue()
        driver.subscribe(self._queue)

    def register(self, uuid: str) -> None:
        """Watch one GPU."""
        gpu = self._driver.by_uuid(uuid)
        with self._driver.call("nvmlDeviceRegisterEvents", gpu):
            self._registered.add(gpu.index)

    def wait(self, milliseconds: int) -> GpuEvent | None:
        """Return the next event, or None after the time limit."""
        self._driver.wait("nvmlEventSetWait", self._has_event, milliseconds / 1000)
        if not self._has_event():
            return None
        notice = self._queue.popleft()
        return GpuEvent(uuid=self._driver.gpus[notice.gpu].uuid, kind=notice.kind, xid=notice.xid)

    def close(self) -> None:
        """Free the set."""
        self._driver.unsubscribe(self._queue)

    def _has_event(self) -> bool:
        while self._queue and self._queue[0].gpu not in self._registered:
            self._queue.popleft()
        return bool(self._queue)
