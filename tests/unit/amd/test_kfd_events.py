"""KFD's reset events: the lines of the driver, fed through pipes."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from deviceplugin.vendors.amd import kfd_events
from deviceplugin.vendors.amd.door import KfdEvent, KfdEventKind
from deviceplugin.vendors.amd.kfd_events import EventFiles, RealDoor, parse


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"3 0x1", KfdEvent(gpu_id=7, kind=KfdEventKind.GPU_PRE_RESET, detail="0x1")),
        (b"4 1", KfdEvent(gpu_id=7, kind=KfdEventKind.GPU_POST_RESET, detail="1")),
        (b"1 abc:prog", KfdEvent(gpu_id=7, kind=KfdEventKind.VM_FAULT, detail="abc:prog")),
        (b"  2 8:9 \r", KfdEvent(gpu_id=7, kind=KfdEventKind.THERMAL_THROTTLE, detail="8:9")),
        (b"3", KfdEvent(gpu_id=7, kind=KfdEventKind.GPU_PRE_RESET)),
        (b"5 1", None),
        (b"", None),
        (b"\xff\x00junk", None),
        (b"-3 1", None),
    ],
)
def test_lines(line: bytes, expected: KfdEvent | None) -> None:
    """An event that we asked for is read, in hexadecimal; anything else is none."""
    assert parse(line, 7) == expected


@pytest.fixture
def files() -> Iterator[tuple[EventFiles, int]]:
    """Event files with one GPU behind a pipe, and the pipe's end."""
    reader, writer = os.pipe()
    events = EventFiles(files={reader: 7})
    yield events, writer
    events.close()
    os.close(writer)


def test_a_line_may_come_in_pieces(files: tuple[EventFiles, int]) -> None:
    """What has no end yet waits for it; several lines of one read are several events."""
    events, pipe = files
    os.write(pipe, b"3 a\n4")
    assert [event.kind for event in events.wait(0)] == [3]
    os.write(pipe, b" b\n3 c\n")
    assert [(event.kind, event.detail) for event in events.wait(0)] == [(4, "b"), (3, "c")]
    assert events.wait(0) == []


def test_a_line_without_end_is_bounded(files: tuple[EventFiles, int]) -> None:
    """Junk that never ends is thrown away, and what comes after it is read."""
    events, pipe = files
    for _ in range(4):
        os.write(pipe, b"x" * 4096)
        assert events.wait(0) == []
    os.write(pipe, b"\n3 a\n")
    assert [event.kind for event in events.wait(0)] == [3]


def test_an_end_is_an_error(files: tuple[EventFiles, int]) -> None:
    """A driver that goes away is not taken for one with nothing to tell."""
    events, pipe = files
    os.dup2(os.open("/dev/null", os.O_RDONLY), next(iter(events.files)))
    with pytest.raises(OSError, match="closed"):
        events.wait(0)
    assert pipe


def test_without_leave_to_open(tmp_path: Path) -> None:
    """A container without /dev/kfd, and one that has something else there, get an OSError."""
    with pytest.raises(FileNotFoundError):
        RealDoor(devfs=tmp_path).subscribe([1])
    (tmp_path / "kfd").touch()
    with pytest.raises(OSError, match=r"ioctl|device"):
        RealDoor(devfs=tmp_path).subscribe([1])


def test_the_request_is_the_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The ioctl has KFD's number and argument, and the mask asks for events 1 to 4 alone."""
    (tmp_path / "kfd").touch()
    reader, writer = os.pipe()
    asked: list[tuple[int, bytes]] = []

    def ioctl(_file: int, request: int, argument: bytearray) -> int:
        asked.append((request, bytes(argument)))
        argument[4:] = struct.pack("=I", writer)
        return 0

    monkeypatch.setattr(kfd_events.fcntl, "ioctl", ioctl)
    events = RealDoor(devfs=tmp_path).subscribe([77])
    assert asked == [(0xC0084B1F, struct.pack("=II", 77, 0))]
    assert os.read(reader, 8) == struct.pack("=Q", 0b1111)
    events.close()
    os.close(reader)
