"""The real door: reset events of KFD, through the SMI interface of /dev/kfd.

An ioctl on /dev/kfd gives a file for one GPU; a mask of event numbers is written to it,
and each event is then a line of text (kernel, ``kfd_smi_events.c``): the number in
hexadecimal, and what the event has to tell.
"""

import fcntl
import os
import select
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin.vendors.amd.door import KfdEvent, KfdEventKind, KfdEvents

_ARGUMENTS = struct.Struct("=II")  # gpuid, anon_fd: struct kfd_ioctl_smi_events_args
_READ_WRITE = 3
_SMI_EVENTS = _READ_WRITE << 30 | _ARGUMENTS.size << 16 | ord("K") << 8 | 0x1F
"""``AMDKFD_IOC_SMI_EVENTS``: _IOWR('K', 0x1F, …)."""

_MASK = sum(1 << (kind - 1) for kind in KfdEventKind)
_CHUNK = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class RealDoor:
    """A ``door.AmdDoor`` on the node's own driver."""

    devfs: Path

    def began(self) -> None:
        """Nothing to do: the driver runs by itself."""

    def subscribe(self, gpu_ids: Sequence[int]) -> KfdEvents:
        """Open an event file for each GPU. Raises OSError where /dev/kfd may not be opened."""
        files: dict[int, int] = {}
        kfd = os.open(self.devfs / "kfd", os.O_RDWR | os.O_CLOEXEC)
        try:
            for gpu_id in gpu_ids:
                files[_subscribed(kfd, gpu_id)] = gpu_id
        except OSError:
            for descriptor in files:
                os.close(descriptor)
            raise
        finally:
            os.close(kfd)
        return EventFiles(files=files)


def _subscribed(kfd: int, gpu_id: int) -> int:
    arguments = bytearray(_ARGUMENTS.pack(gpu_id, 0))
    fcntl.ioctl(kfd, _SMI_EVENTS, arguments)
    _, descriptor = _ARGUMENTS.unpack(arguments)
    os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's own signature
    os.write(descriptor, struct.pack("=Q", _MASK))
    return int(descriptor)


@dataclass(slots=True, kw_only=True)
class EventFiles:
    """A ``door.KfdEvents`` over open files: descriptor → GPU."""

    files: dict[int, int]
    _rest: dict[int, bytes] = field(default_factory=dict)

    def wait(self, seconds: float) -> Sequence[KfdEvent]:
        """Return what came within so long. Raises OSError when a file broke."""
        ready, _, _ = select.select(list(self.files), [], [], seconds)
        return [event for descriptor in ready for event in self._read(descriptor)]

    def close(self) -> None:
        """Close all files."""
        for descriptor in self.files:
            os.close(descriptor)
        self.files = {}

    def _read(self, descriptor: int) -> Sequence[KfdEvent]:
        data = os.read(descriptor, _CHUNK)
        if not data:
            raise OSError(0, "the driver closed the event file")
        *lines, rest = (self._rest.get(descriptor, b"") + data).split(b"\n")
        # A line without an end is kept for the next read; one that never ends is junk.
        self._rest[descriptor] = rest if len(rest) <= _CHUNK else b""
        events = (parse(line, self.files[descriptor]) for line in lines)
        return [event for event in events if event is not None]


def parse(line: bytes, gpu_id: int) -> KfdEvent | None:
    """Read one line; None for one that is no event that we asked for."""
    number, _, detail = line.decode("ascii", "replace").strip().partition(" ")
    try:
        kind = KfdEventKind(int(number, 16))
    except ValueError:
        return None
    return KfdEvent(gpu_id=gpu_id, kind=kind, detail=detail.strip()[:200])
