"""What a simulated NVIDIA driver is like at one moment, and how a step changes it. Pure."""

import math
from dataclasses import dataclass, replace

from deviceplugin.simulation.timeline import Step, Verb
from deviceplugin.vendors.nvidia.door import Code

RESET_SECONDS = 2.0
"""A GPU that is being reset is lost for so long; longer than between two polls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ailment:
    """What is wrong with calls to one GPU, or to the whole driver.

    Attributes:
        error: NVML code that each call fails with; None for none.
        error_until: the error ends by itself then, on the machine's clock.
        hung_until: calls hang until then, on the machine's clock; 0 for not at all.
        latency: seconds that each call takes.

    """

    error: int | None = None
    error_until: float = math.inf
    hung_until: float = 0.0
    latency: float = 0.0

    def error_at(self, now: float) -> int | None:
        """Return the error that a call has at a time."""
        return self.error if now < self.error_until else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """One GPU; ``recovery`` is NVML's recovery action."""

    plugged: bool = True
    recovery: int = 0
    ailment: Ailment = Ailment()


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverState:
    """The driver with its GPUs, by their index on the complete machine.

    Attributes:
        refusal: NVML code with which the driver refuses to be opened; None when it is loaded.
        loads: how often it was unloaded or replaced: what was opened before is closed.

    """

    gpus: tuple[GpuState, ...]
    refusal: int | None = None
    loads: int = 0
    ailment: Ailment = Ailment()


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """An event that the driver reports; ``kind`` as in ``GpuEvent``."""

    gpu: int
    kind: str
    xid: int | None = None


def after(state: DriverState, step: Step, now: float) -> tuple[DriverState, tuple[Notice, ...]]:
    """Return the state after a step, and what the driver reports."""
    match step.verb:
        case Verb.DRIVER:
            return _driver(state, step.word), ()
        case Verb.HANG | Verb.ERROR | Verb.LATENCY | Verb.LOST:
            return _ail(state, step, now), ()
        case Verb.RECOVER if step.gpu is None:
            healed = tuple(replace(gpu, ailment=Ailment(), recovery=0) for gpu in state.gpus)
            return replace(state, gpus=healed, ailment=Ailment()), ()
    return _one_gpu(state, step, now)


def _driver(state: DriverState, word: str) -> DriverState:
    if word == "back":
        return replace(state, refusal=None, ailment=Ailment())
    refusal = Code.DRIVER_NOT_LOADED if word == "gone" else Code.LIB_RM_VERSION_MISMATCH
    return replace(state, refusal=refusal, loads=state.loads + 1)


def _ail(state: DriverState, step: Step, now: float) -> DriverState:
    if step.gpu is None:
        return replace(state, ailment=_worse(state.ailment, step, now))
    gpu = state.gpus[step.gpu]
    return _with(state, step.gpu, replace(gpu, ailment=_worse(gpu.ailment, step, now)))


def _worse(ailment: Ailment, step: Step, now: float) -> Ailment:
    if step.verb is Verb.HANG:
        return replace(ailment, hung_until=now + step.number)
    if step.verb is Verb.LATENCY:
        return replace(ailment, latency=step.number / 1000)
    code = Code.GPU_IS_LOST if step.verb is Verb.LOST else int(step.number)
    return replace(ailment, error=code, error_until=math.inf)


def _one_gpu(state: DriverState, step: Step, now: float) -> tuple[DriverState, tuple[Notice, ...]]:
    index = step.gpu or 0
    gpu = state.gpus[index]
    match step.verb:
        case Verb.XID:
            return state, (Notice(gpu=index, kind="xid", xid=int(step.number)),)
        case Verb.RECOVERY:
            asking = replace(gpu, recovery=int(step.number))
            return _with(state, index, asking), (Notice(gpu=index, kind="recovery-action"),)
        case Verb.RESET:
            away = Ailment(error=Code.GPU_IS_LOST, error_until=now + RESET_SECONDS)
            return _with(state, index, replace(gpu, recovery=0, ailment=away)), ()
        case Verb.RECOVER:
            return _with(state, index, replace(gpu, recovery=0, ailment=Ailment())), ()
        case Verb.UNPLUG:
            return _with(state, index, replace(gpu, plugged=False)), ()
        case _:
            return _with(state, index, GpuState()), ()


def _with(state: DriverState, index: int, gpu: GpuState) -> DriverState:
    return replace(state, gpus=(*state.gpus[:index], gpu, *state.gpus[index + 1 :]))
