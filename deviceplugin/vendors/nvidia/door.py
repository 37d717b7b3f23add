"""The door to NVML: what we ask of it, in our own terms.

``nvml.py`` stands behind it with the real library, ``simulation/nvml.py`` with a
simulated machine. A door is used by the scan thread, the event thread and the poll
thread; calls may take long or hang, so none is made elsewhere.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from deviceplugin.errors import DevicePluginError


class Code(enum.IntEnum):
    """NVML return codes that we tell apart."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    UNKNOWN = 999


class NvmlError(DevicePluginError):
    """An NVML call did not return 0.

    Attributes:
        code: NVML's return code (see ``Code``; others may occur).
        call: the function that was called.

    """

    def __init__(self, code: int, call: str, text: str = "") -> None:
        super().__init__(f"{call}: {text or 'NVML error'} (code {code})")
        self.code = code
        self.call = call


SWITCH = "switch"
"""The other end of NVLinks that lead to switches: all GPUs on them reach each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInfo:
    """One GPU as NVML shows it.

    Attributes:
        pci_address: ``dddd:bb:dd.f``, lower case.
        memory_mib: None where the driver cannot tell.
        mig_enabled: None where MIG is not supported.

    """

    index: int
    uuid: str
    minor: int
    name: str
    pci_address: str
    memory_mib: int | None = None
    mig_enabled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvent:
    """One event of the event set.

    Attributes:
        uuid: the GPU; None when the driver does not say which.
        xid: the XID number of an XID-critical event; None for the other kinds.
        kind: "xid" | "dbe" | "sbe" | "recovery-action" | "unavailable" | "other".

    """

    uuid: str | None
    kind: str
    xid: int | None = None


class EventSet(Protocol):
    """One NVML event set; used and closed by the thread that made it."""

    def register(self, uuid: str) -> None:
        """Watch one GPU; call it once for each. Raises NvmlError (NOT_SUPPORTED: no events)."""

    def wait(self, milliseconds: int) -> GpuEvent | None:
        """The next event, None after the time limit. Raises NvmlError."""

    def close(self) -> None:
        """Free the set."""


class Nvml(Protocol):
    """What the NVIDIA vendor asks of NVML. Every method may raise NvmlError."""

    def open(self) -> None:
        """Find and load the library and initialise it; a second call is a no-op while open.

        Raises NvmlError LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, others.
        """

    def close(self) -> None:
        """Shut NVML down; ``open`` starts anew (and looks the library up again)."""

    def library(self) -> str:
        """The file that was loaded, links resolved; "" while closed."""

    def driver_version(self) -> str:
        """``580.95.05``."""

    def count(self) -> int:
        """Number of GPUs that the driver shows."""

    def gpu(self, index: int) -> GpuInfo:
        """One GPU; an error is that GPU's alone."""

    def check(self, uuid: str) -> None:
        """Ask the GPU something cheap that touches it; raises NvmlError when it does not answer."""

    def recovery_action(self, uuid: str) -> int | None:
        """Field 230: see ``recovery.py`` for the values; None: this driver does not have it."""

    def nvlinks(self, uuid: str) -> Mapping[str, int]:
        """Active NVLinks by the PCI address at the other end, or ``SWITCH``; {} for none."""

    def events(self, uuids: Sequence[str]) -> EventSet:
        """A new event set, each GPU registered once; one that has no events is skipped."""
