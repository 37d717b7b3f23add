"""Socket files of ours: their names, their identity, and the dead ones."""

import contextlib
import errno
import os
import re
import secrets
from pathlib import Path

from deviceplugin.errors import DevicePluginError
from deviceplugin.model import ResourceName
from deviceplugin.watch.kubelet_socket import connect_error

PATH_LIMIT = 107
"""Bytes of a Unix socket's path: ``sun_path`` less its closing zero."""

_UNIQUE = 4  # random bytes, written as twice as many hex digits
_SUFFIX = ".sock"

Inode = tuple[int, int]
"""Device and inode number of a file."""


class SocketPathError(DevicePluginError):
    """The plugin folder's path leaves no room for a socket name."""


def fresh(folder: Path, vendor: str, resource: ResourceName) -> Path:
    """Path of a socket that never existed: ``<vendor>-<resource>-<unique>.sock``.

    A name is used once: kubelet 1.37 refuses a path that it still knows, and a Python
    gRPC server removes the path when it stops, even from under a newer server.

    Raises:
        SocketPathError: ``folder`` is too long.

    """
    unique = f"-{secrets.token_hex(_UNIQUE)}{_SUFFIX}"
    head = f"{_plain(vendor)}-"
    room = PATH_LIMIT - len(os.fsencode(folder)) - 1 - len(head) - len(unique)
    if room < 1:
        raise SocketPathError(
            f"the plugin folder's path {folder} is {1 - room} bytes too long for a socket"
            f" (limit {PATH_LIMIT} with the name): mount it at a shorter path"
        )
    return folder / f"{head}{_plain(resource.rpartition('/')[2])[:room]}{unique}"


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]", "-", text)


def inode(path: Path) -> Inode | None:
    """Which file is at ``path`` now; None for none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def remove_own(path: Path, own: Inode) -> None:
    """Remove the file at ``path`` if it is still ours."""
    if inode(path) == own:
        with contextlib.suppress(OSError):
            path.unlink()


def remove_dead(folder: Path, vendor: str) -> list[str]:
    """Remove sockets of this vendor that nobody serves; returns their names.

    Only for the holder of the vendor's lock: then no process of ours is between bind and
    listen, when a live socket refuses connections too.
    """
    ours = re.compile(rf"{re.escape(_plain(vendor))}-.+-[0-9a-f]{{{2 * _UNIQUE}}}\{_SUFFIX}")
    dead = [p for p in sorted(folder.iterdir()) if ours.fullmatch(p.name) and _is_dead(p)]
    for path in dead:
        with contextlib.suppress(OSError):
            path.unlink()
    return [path.name for path in dead]


def _is_dead(path: Path) -> bool:
    return path.is_socket() and connect_error(path) == errno.ECONNREFUSED
