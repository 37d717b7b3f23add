"""Reads single attributes of sysfs: bounded, tolerant, never waiting."""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

LARGEST = 64 * 1024
"""Bytes. The kernel gives a page for most attributes; what is larger is none."""

_CHUNK = 16 * 1024
_INTEGER = re.compile(r"-?(?:0x[0-9a-fA-F]{1,16}|[0-9]{1,20})", re.ASCII)


def read(path: Path) -> str:
    """Content of an attribute, without white space around it; bytes that are no text replaced.

    Raises:
        OSError: it is not there, may not be read, vanished meanwhile, or is no attribute.

    """
    # Without O_NONBLOCK a pipe in the attribute's place would block the scan for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        data = b"".join(_chunks(descriptor))
    finally:
        os.close(descriptor)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"has more than {LARGEST:,} bytes", str(path))
    return data.decode("utf-8", "replace").strip()


def _chunks(descriptor: int) -> Iterator[bytes]:
    left = LARGEST + 1
    while left > 0 and (chunk := os.read(descriptor, min(left, _CHUNK))):
        left -= len(chunk)
        yield chunk


def text(path: Path) -> str:
    """Content of an attribute; "" where it cannot be read."""
    try:
        return read(path)
    except OSError:
        return ""


def number(path: Path) -> int | None:
    """An attribute that holds one integer; None where it does not."""
    return integer(text(path))


def integer(written: str) -> int | None:
    """A number as the kernel writes it, decimal or with 0x; None for anything else."""
    if not _INTEGER.fullmatch(written):
        return None
    return int(written, 16 if "x" in written else 10)


def entries(folder: Path) -> list[str]:
    """Names in a folder, sorted; none where it cannot be read."""
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are wanted, not paths
    except OSError:
        return []
