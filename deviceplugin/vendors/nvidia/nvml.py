"""The real library behind the door, through nvidia-ml-py. Its only importer.

nvidia-ml-py keeps the library's handle and a cache of its functions in module globals
and never lets go of either. ``open`` sets both, so that a driver replaced under us is
followed to its new file within the process.
"""

import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deviceplugin.vendors.nvidia import recovery
from deviceplugin.vendors.nvidia.door import SWITCH, Code, GpuEvent, GpuInfo, NvmlError
from deviceplugin.vendors.nvidia.library import Library

DRAIN_SECONDS = 3.0
"""How long ``close`` waits for calls under way; an event wait takes a second at most."""

_ABSENT = (Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND, Code.INVALID_ARGUMENT)
_UNREADABLE = (Code.NOT_SUPPORTED, Code.FUNCTION_NOT_FOUND, Code.NO_PERMISSION)

# nvmlEventType…: single-bit errors are left out, they come in storms and mean nothing.
_KINDS = {0x2: "dbe", 0x8: "xid", 0x4000: "unavailable", 0x8000: "recovery-action"}


class RealNvml:
    """NVML of this machine; see ``door.Nvml``. Any number of threads may call."""

    def __init__(self, library: Path | None = None, driver_root: Path | None = None) -> None:
        """Look for ``library``, else under ``driver_root``, else where the loader looks."""
        self._library = Library(given=library, driver_root=driver_root)
        self._opening = threading.Lock()
        self._changed = threading.Condition()  # held for assignments, never during a call
        self._calls = 0
        self._session = 0
        self._pynvml: Any = None
        self._path = ""
        self._handles: dict[str, Any] = {}

    def look_under(self, driver_root: Path) -> None:
        """Look for the library under another driver root, from the next ``open`` on."""
        self._library.driver_root = driver_root

    def open(self) -> None:
        """Load and initialise; nothing happens while open."""
        with self._opening:
            if self._pynvml is not None:
                return
            handle, path = self._library.load()
            pynvml = _bind(handle)
            with _translated(pynvml, "nvmlInitWithFlags"):
                pynvml.nvmlInitWithFlags(0)
            with self._changed:
                self._handles = {}
                self._session += 1
                self._pynvml, self._path = pynvml, path

    def close(self) -> None:
        """Shut down, unless a call hangs: then the library is left to it."""
        with self._changed:
            pynvml, self._pynvml, self._path = self._pynvml, None, ""
            if pynvml is None:
                return
            idle = self._changed.wait_for(lambda: self._calls == 0, DRAIN_SECONDS)
            if idle:
                _shut_down(pynvml)
            else:
                # The call that hangs keeps its library; those that follow are not its heirs.
                self._calls = 0

    def library(self) -> str:
        """Return the file that is loaded; "" while closed."""
        return self._path

    def driver_version(self) -> str:
        """Return the driver's version."""
        with self._call("nvmlSystemGetDriverVersion") as pynvml:
            return str(pynvml.nvmlSystemGetDriverVersion())

    def count(self) -> int:
        """Return the number of GPUs, lost ones included."""
        with self._call("nvmlDeviceGetCount") as pynvml:
            return int(pynvml.nvmlDeviceGetCount())

    def gpu(self, index: int) -> GpuInfo:
        """Return what the driver says of one GPU."""
        with self._call(f"nvmlDeviceGetHandleByIndex({index})") as pynvml:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        with self._call(f"GPU {index}") as pynvml:
            info = _describe(pynvml, handle, index)
        self._handles[info.uuid] = handle
        return info

    def check(self, uuid: str) -> None:
        """Ask for the memory in use, which the GPU itself has to answer."""
        try:
            self._touch(uuid)
        except NvmlError as error:
            if error.code != Code.INVALID_ARGUMENT:
                raise
            # The handle is stale (the GPU was taken out or reset): look it up once more.
            self._handles.pop(uuid, None)
            self._touch(uuid)

    def recovery_action(self, uuid: str) -> int | None:
        """Return field 230; None where the driver has no such field."""
        with self._call(f"nvmlDeviceGetFieldValues({uuid})") as pynvml:
            handle = self._handle(pynvml, uuid)
            value = _optional(lambda: pynvml.nvmlDeviceGetFieldValues(handle, [recovery.FIELD])[0])
            if value is None or value.nvmlReturn in _ABSENT:
                return None
            if value.nvmlReturn != 0:
                raise pynvml.NVMLError(value.nvmlReturn)
            return int(value.value.uiVal)

    def nvlinks(self, uuid: str) -> Mapping[str, int]:
        """Return the active NVLinks of a GPU by what is at their other end."""
        with self._call(f"nvmlDeviceGetNvLinkState({uuid})") as pynvml:
            handle = self._handle(pynvml, uuid)
            ends = (_far_end(pynvml, handle, link) for link in range(pynvml.NVML_NVLINK_MAX_LINKS))
            return Counter(end for end in ends if end)

    def events(self, uuids: Sequence[str]) -> "RealEventSet":
        """Return a new event set with these GPUs; one that has no events is skipped."""
        with self._call("nvmlEventSetCreate") as pynvml:
            made = RealEventSet(self, pynvml.nvmlEventSetCreate(), self._session)
        try:
            for uuid in uuids:
                made.register_if_possible(uuid)
        except NvmlError:
            made.close()
            raise
        return made

    def _touch(self, uuid: str) -> None:
        with self._call(f"nvmlDeviceGetMemoryInfo({uuid})") as pynvml:
            handle = self._handle(pynvml, uuid)
            try:
                pynvml.nvmlDeviceGetMemoryInfo(handle)
            except pynvml.NVMLError as error:
                if error.value not in _UNREADABLE:
                    raise

    def _handle(self, pynvml: Any, uuid: str) -> Any:
        # Kept from the enumeration: a lookup by UUID goes through all GPUs, and may answer
        # "lost" because another one is.
        if uuid not in self._handles:
            self._handles[uuid] = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return self._handles[uuid]

    @contextmanager
    def _call(self, name: str, session: int | None = None) -> Iterator[Any]:
        with self._changed:
            pynvml = self._pynvml
            if pynvml is None or session not in (None, self._session):
                raise NvmlError(Code.UNINITIALIZED, name, "NVML is closed")
            begun = self._session
            self._calls += 1
        try:
            with _translated(pynvml, name):
                yield pynvml
        finally:
            with self._changed:
                # A call that came back after its library was given up does not count any more.
                if begun == self._session and self._calls:
                    self._calls -= 1
                self._changed.notify_all()


class RealEventSet:
    """One NVML event set; see ``door.EventSet``. Dies with the session it was made in."""

    def __init__(self, nvml: RealNvml, handle: Any, session: int) -> None:
        self._nvml = nvml
        self._set = handle
        self._session = session
        self._uuids: dict[int | None, str] = {}

    def register(self, uuid: str) -> None:
        """Watch one GPU for the events that it has and that we know."""
        with self._call(f"nvmlDeviceRegisterEvents({uuid})") as pynvml:
            handle = self._nvml._handle(pynvml, uuid)  # noqa: SLF001 - two halves of one door
            kinds = pynvml.nvmlDeviceGetSupportedEventTypes(handle) & sum(_KINDS)
            if not kinds:
                raise pynvml.NVMLError(Code.NOT_SUPPORTED)
            pynvml.nvmlDeviceRegisterEvents(handle, kinds, self._set)
        self._uuids[_address(handle)] = uuid

    def register_if_possible(self, uuid: str) -> None:
        """Watch one GPU; do nothing where it has no events."""
        try:
            self.register(uuid)
        except NvmlError as error:
            if error.code != Code.NOT_SUPPORTED:
                raise

    def wait(self, milliseconds: int) -> GpuEvent | None:
        """Return the next event, or None after the time limit."""
        with self._call("nvmlEventSetWait") as pynvml:
            try:
                data = pynvml.nvmlEventSetWait_v2(self._set, milliseconds)
            except pynvml.NVMLError as error:
                if error.value == Code.TIMEOUT:
                    return None
                raise
            kind = _KINDS.get(data.eventType, "other")
            xid = int(data.eventData) if kind == "xid" else None
            return GpuEvent(uuid=self._uuid(pynvml, data.device), kind=kind, xid=xid)

    def close(self) -> None:
        """Free the set; nothing to do when its session is over."""
        try:
            with self._call("nvmlEventSetFree") as pynvml:
                pynvml.nvmlEventSetFree(self._set)
        except NvmlError:
            return

    def _uuid(self, pynvml: Any, handle: Any) -> str | None:
        # By the handle first: a GPU that has just been lost no longer tells its UUID.
        try:
            return self._uuids.get(_address(handle)) or str(pynvml.nvmlDeviceGetUUID(handle))
        except pynvml.NVMLError:
            return None

    def _call(self, name: str) -> Any:
        return self._nvml._call(name, self._session)  # noqa: SLF001 - two halves of one door


def _binding() -> Any:
    # Imported when there is a library: it costs 8,000 lines and some megabytes.
    import pynvml  # noqa: PLC0415, TID251 - late for its size, and this is the one door

    return pynvml


def _bind(handle: ctypes.CDLL) -> Any:
    """Point nvidia-ml-py at this library and make it forget the one before."""
    pynvml = _binding()
    with pynvml.libLoadLock:
        pynvml.nvmlLib = handle
        pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - it has no other way
        pynvml._nvmlLib_refcount = 0  # noqa: SLF001 - as above
    return pynvml


def _shut_down(pynvml: Any) -> None:
    try:
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        # Closing a session that the driver has already forgotten.
        return


@contextmanager
def _translated(pynvml: Any, call: str) -> Iterator[None]:
    try:
        yield
    except pynvml.NVMLError as error:
        raise NvmlError(int(error.value), call, str(error)) from error


def _optional(ask: Callable[[], Any]) -> Any:
    """Return what ``ask`` says, None where the driver does not have it."""
    try:
        return ask()
    except _binding().NVMLError as error:
        if error.value in (*_ABSENT, Code.NO_PERMISSION):
            return None
        raise


def _describe(pynvml: Any, handle: Any, index: int) -> GpuInfo:
    memory = _optional(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    mig = _optional(lambda: pynvml.nvmlDeviceGetMigMode(handle)[0])
    return GpuInfo(
        index=index,
        uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
        minor=int(pynvml.nvmlDeviceGetMinorNumber(handle)),
        name=str(pynvml.nvmlDeviceGetName(handle)),
        pci_address=_pci_address(pynvml.nvmlDeviceGetPciInfo(handle)),
        memory_mib=None if memory is None else int(memory) // 2**20,
        mig_enabled=None if mig is None else bool(mig),
    )


def _far_end(pynvml: Any, handle: Any, link: int) -> str:
    """What an NVLink leads to; "" for one that is not there, not active, or not told."""
    if not _asked(lambda: pynvml.nvmlDeviceGetNvLinkState(handle, link)):
        return ""
    kind = _asked(lambda: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))
    if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return SWITCH
    info = _asked(lambda: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))
    return _pci_address(info) if info else ""


def _asked(ask: Callable[[], Any]) -> Any:
    """Return what ``ask`` says; None for a link that the GPU has not, too."""
    try:
        return _optional(ask)
    except _binding().NVMLError as error:
        if error.value == Code.INVALID_ARGUMENT:
            return None
        raise


def _pci_address(info: Any) -> str:
    # sysfs writes the domain with four digits, NVML with eight; a GPU is function 0.
    return f"{info.domain:04x}:{info.bus:02x}:{info.device:02x}.0"


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
