"""Where ``libnvidia-ml.so.1`` is: under a driver root, as given, or by the loader's own search."""

import ctypes
import os
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin.vendors.nvidia.door import Code, NvmlError

NAME = "libnvidia-ml.so.1"

FOLDERS = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
)
"""Folders of a driver root that hold the library on the distributions there are."""

_MAPS = Path("/proc/self/maps")
_LINKS = 40  # as many as the kernel follows


@dataclass(slots=True, kw_only=True)
class Library:
    """Finds and loads the library; a second ``load`` finds what took its place.

    Attributes:
        given: this file and no other.
        driver_root: searched before the loader is asked.

    """

    given: Path | None
    driver_root: Path | None
    _loaded: dict[str, tuple[int, int]] = field(default_factory=dict)
    _folder: Path | None = None

    def load(self) -> tuple[ctypes.CDLL, str]:
        """Load the library that is there now.

        Returns:
            The handle and the real path of the file.

        Raises:
            NvmlError: LIBRARY_NOT_FOUND; the text says where it was looked for.

        """
        path = self.find()
        return self._load_file(path) if path else self._load_by_name()

    def find(self) -> Path | None:
        """Resolve the library's file now; None where only the loader knows."""
        if self.given:
            return self.given.resolve()
        if self.driver_root:
            files = (resolve_under(self.driver_root, f"{folder}/{NAME}") for folder in FOLDERS)
            found = next((file for file in files if file.is_file()), None)
            if found:
                return found
        # What the loader found once may have been replaced beside itself since.
        beside = self._folder / NAME if self._folder else None
        return beside.resolve() if beside and beside.exists() else None

    def _load_file(self, path: Path) -> tuple[ctypes.CDLL, str]:
        try:
            status = path.stat()
            spelled = self._spelled(path, (status.st_dev, status.st_ino))
            return ctypes.CDLL(spelled), str(path)
        except OSError as error:
            raise NvmlError(
                Code.LIBRARY_NOT_FOUND, "dlopen", f"{path} cannot be loaded: {error}"
            ) from error

    def _spelled(self, path: Path, identity: tuple[int, int]) -> str:
        """Write ``path`` in a way that the loader has not seen for another file.

        The loader hands out what it has loaded under the same spelling before, even when
        the file behind it is a new one; ``/./`` changes the spelling and not the file.
        """
        spelled = str(path)
        while self._loaded.setdefault(spelled, identity) != identity:
            spelled = f"{path.parent}/{'./' * (spelled.count('/./') + 1)}{path.name}"
        return spelled

    def _load_by_name(self) -> tuple[ctypes.CDLL, str]:
        try:
            handle = ctypes.CDLL(NAME)
        except OSError as error:
            where = f"under {self.driver_root} nor " if self.driver_root else ""
            raise NvmlError(
                Code.LIBRARY_NOT_FOUND, "dlopen", f"{NAME} was not found {where}by the loader"
            ) from error
        path = _mapped()
        self._folder = path.parent if path else None
        return handle, str(path or NAME)


def resolve_under(root: Path, path: str) -> Path:
    """Resolve ``path`` as a process with the root directory ``root`` would.

    Distributions link the library through ``/etc/alternatives``; seen from outside the
    driver's root, such an absolute link would lead into our own file system.
    """
    parts, resolved, links = path.split("/")[::-1], root, 0
    while parts:
        part = parts.pop()
        if part == "..":
            resolved = resolved if resolved == root else resolved.parent
            continue
        step = resolved / part
        if step.is_symlink() and links < _LINKS:
            links += 1
            target = os.readlink(step)  # noqa: PTH115 - a Path would lose "/./" and "//"
            resolved = root if target.startswith("/") else resolved
            parts += [part for part in target.split("/")[::-1] if part]
        else:
            resolved = step
    return resolved


def _mapped() -> Path | None:
    """Return the file that the loader took, as the kernel shows it."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    paths = (Path(line.split(maxsplit=5)[5]) for line in lines if "/libnvidia-ml.so" in line)
    return next(paths, None)
