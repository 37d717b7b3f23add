"""A simulated NVIDIA driver: one state that steps change while threads are calling in."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from deviceplugin.simulation.driver_state import Ailment, DriverState, GpuState, Notice, after
from deviceplugin.simulation.machine import Gpu
from deviceplugin.simulation.timeline import Step
from deviceplugin.vendors.nvidia.door import Code, NvmlError

Queue = deque[Notice]

_TEXTS = {
    Code.UNINITIALIZED: "not initialised",
    Code.INVALID_ARGUMENT: "invalid argument",
    Code.NOT_FOUND: "not found",
    Code.DRIVER_NOT_LOADED: "driver not loaded",
    Code.LIBRARY_NOT_FOUND: "library not found",
    Code.GPU_IS_LOST: "GPU is lost",
    Code.LIB_RM_VERSION_MISMATCH: "driver and library versions differ",
}


def nvml_error(code: int, call: str) -> NvmlError:
    """Return the error that NVML would give."""
    text = next((text for known, text in _TEXTS.items() if known == code), "")
    return NvmlError(code, call, text)


class GpuDriver:
    """Every call enters through ``call`` and is as slow and as broken as the state says."""

    def __init__(self, gpus: Sequence[Gpu], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.gpus = tuple(gpus)
        self._clock = clock
        self._changed = threading.Condition()
        self._state = DriverState(gpus=(GpuState(),) * len(self.gpus))
        self._opened_load: int | None = None
        self._queues: list[Queue] = []

    @property
    def state(self) -> DriverState:
        """How the driver is now."""
        return self._state

    def apply(self, step: Step) -> None:
        """Let a step happen now; waiting and hanging calls notice at once."""
        with self._changed:
            self._state, notices = after(self._state, step, self._clock())
            for queue in self._queues:
                queue.extend(notices)
            self._changed.notify_all()

    def open(self) -> None:
        """Start a session. Raises NvmlError while the driver refuses."""
        with self._changed:
            self._suffer("nvmlInit", lambda: self._state.ailment)
            if self._state.refusal is not None:
                raise nvml_error(self._state.refusal, "nvmlInit")
            self._opened_load = self._state.loads

    def close(self) -> None:
        """End the session."""
        self._opened_load = None

    @property
    def is_open(self) -> bool:
        """Whether there is a session with the driver that is loaded now."""
        return self._opened_load == self._state.loads and self._state.refusal is None

    @contextmanager
    def call(self, name: str, gpu: Gpu | None = None) -> Iterator[None]:
        """Enter the driver, for a GPU or as a whole. Raises NvmlError where it is broken."""
        with self._changed:
            self._enter(name)
            if gpu is not None:
                self._suffer(name, lambda: self._state.gpus[gpu.index].ailment)
                if not self._state.gpus[gpu.index].plugged:
                    raise nvml_error(Code.NOT_FOUND, name)
            yield

    def plugged(self) -> tuple[Gpu, ...]:
        """Return the GPUs that are there."""
        return tuple(gpu for gpu in self.gpus if self._state.gpus[gpu.index].plugged)

    def by_uuid(self, uuid: str) -> Gpu:
        """Return a GPU of the complete machine. Raises NvmlError NOT_FOUND."""
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                return gpu
        raise nvml_error(Code.NOT_FOUND, "nvmlDeviceGetHandleByUUID")

    def subscribe(self, queue: Queue) -> None:
        """Put what the driver reports from now on into ``queue``."""
        with self._changed:
            self._queues.append(queue)

    def unsubscribe(self, queue: Queue) -> None:
        """Stop that. Compares by identity: two empty queues are equal."""
        with self._changed:
            self._queues = [other for other in self._queues if other is not queue]

    def wait(self, name: str, until: Callable[[], bool], seconds: float) -> None:
        """Wait inside a call for ``until()``. Raises NvmlError as soon as the driver breaks."""
        with self._changed:
            self._changed.wait_for(lambda: until() or self._broken(), seconds)
            self._enter(name)

    def _enter(self, name: str) -> None:
        self._suffer(name, lambda: self._state.ailment)
        if self._state.refusal is not None:
            raise nvml_error(self._state.refusal, name)
        if not self.is_open:
            raise nvml_error(Code.UNINITIALIZED, name)

    def _broken(self) -> bool:
        ailment = self._state.ailment
        hung = ailment.hung_until > self._clock()
        return hung or ailment.error_at(self._clock()) is not None or not self.is_open

    def _suffer(self, name: str, ailment: Callable[[], Ailment]) -> None:
        """Take as long and fail as the ailment says; it may change while the call hangs."""
        start = self._clock()
        while (left := self._left(ailment(), start)) > 0:
            self._changed.wait(left)
        error = ailment().error_at(self._clock())
        if error is not None:
            raise nvml_error(error, name)

    def _left(self, ailment: Ailment, start: float) -> float:
        return max(ailment.hung_until, start + ailment.latency) - self._clock()
