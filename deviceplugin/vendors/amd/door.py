"""The one door to AMD's driver that is no file: reset events of /dev/kfd.

Everything else of a GPU is read from sysfs, under a root that tests and simulation move.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class KfdEventKind(enum.IntEnum):
    """Numbers of ``enum kfd_smi_event`` (kernel, kfd_ioctl.h) that every driver agrees on."""

    VM_FAULT = 1
    THERMAL_THROTTLE = 2
    GPU_PRE_RESET = 3
    GPU_POST_RESET = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class KfdEvent:
    """One event; ``gpu_id`` is KFD's (``nodes/<n>/gpu_id``)."""

    gpu_id: int
    kind: int
    detail: str = ""


class KfdEvents(Protocol):
    """An open subscription; used and closed on one thread."""

    def wait(self, seconds: float) -> Sequence[KfdEvent]:
        """Return what came within so long, at least once looked. Raises OSError when it broke."""

    def close(self) -> None:
        """End it."""


class AmdDoor(Protocol):
    """AMD's driver on this machine, as far as it is no file."""

    def began(self) -> None:
        """Called before each scan; a simulated driver starts its timeline at the first."""

    def subscribe(self, gpu_ids: Sequence[int]) -> KfdEvents:
        """Listen for the events of these GPUs.

        Raises:
            OSError: /dev/kfd is not there, or may not be opened.

        """
