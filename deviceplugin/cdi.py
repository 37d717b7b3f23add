"""Which CDI device names resolve on this node: reads the spec files as a runtime does.

The rules are those of the CDI specification: all ``*.json`` and ``*.yaml`` of each
folder, a later folder outranks an earlier one, and a name that two files of the same
rank define resolves to neither.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

logger = logging.getLogger(__name__)

_SUFFIXES = (".json", ".yaml")
_LARGEST = 16 * 1024 * 1024  # bytes; a vendor's spec has some 30 KB

_Stamp = tuple[int, int, int]

Named = Mapping[str, frozenset[str]]
"""Fully qualified names (``vendor/class=device``), and the host's device nodes behind each."""


class SpecError(ValueError):
    """A file that is no CDI spec; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What one file said the last time it was read."""

    stamp: _Stamp
    named: Named = field(default_factory=dict)
    problem: str = ""


class CdiSpecs:
    """The CDI folders of this node. For one thread; reads a file again when it changed."""

    def __init__(self, dirs: Sequence[Path]) -> None:
        """Look into ``dirs``, lowest rank first; folders may be missing."""
        self._dirs = tuple(dirs)
        self._files: dict[Path, _Read] = {}

    def names(self) -> frozenset[str]:
        """Fully qualified names (``vendor/class=device``) that resolve now."""
        return frozenset(self.named())

    def named(self) -> Named:
        """Names that resolve now, each with the paths of its device nodes on the host.

        Nodes that a spec gives to all of its devices are among them.
        """
        found = {path: self._read(path) for folder in self._dirs for path in _files(folder)}
        self._files = {path: read for path, read in found.items() if read}
        resolved: dict[str, frozenset[str]] = {}
        for folder in self._dirs:
            reads = [read for path, read in self._files.items() if path.parent == folder]
            count = Counter(name for read in reads for name in read.named)
            for read in reads:
                resolved.update(read.named)
            # A clash in a higher folder hides the name altogether: the rank was taken.
            for name in (name for name, files in count.items() if files > 1):
                del resolved[name]
        return resolved

    def problems(self) -> tuple[str, ...]:
        """One line for each file that could not be used at the last look."""
        return tuple(
            f"{path}: {read.problem}" for path, read in sorted(self._files.items()) if read.problem
        )

    def _read(self, path: Path) -> _Read | None:
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._files.get(path)
            return known if known and known.stamp == stamp else _parse(path, stamp)
        except FileNotFoundError:
            return None  # removed between listing and reading
        except OSError as error:
            return _Read(stamp=(0, 0, 0), problem=f"cannot be read: {error.strerror}")


def resolve(dirs: Sequence[Path]) -> frozenset[str]:
    """Names that resolve now under ``dirs``, lowest rank first; keeps nothing."""
    return CdiSpecs(dirs).names()


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
    except OSError:
        return []


def _parse(path: Path, stamp: _Stamp) -> _Read:
    try:
        return _Read(stamp=stamp, named=_named(_load(path, stamp[1])))
    except (SpecError, ValueError, yaml.YAMLError, RecursionError) as error:
        problem = " ".join(str(error).split()) or type(error).__name__
        logger.warning("CDI spec ignored", extra={"file": str(path), "problem": problem})
        return _Read(stamp=stamp, problem=problem)


def _load(path: Path, size: int) -> Any:
    if size > _LARGEST:
        raise SpecError(f"has {size} bytes; a CDI spec has at most {_LARGEST}")
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both loaders are safe ones


def _named(document: Any) -> Named:
    if not isinstance(document, dict) or not document.get("cdiVersion"):
        raise SpecError("is no CDI spec: it has no cdiVersion")
    kind = document.get("kind")
    if not isinstance(kind, str) or not all(part for part in kind.partition("/")):
        raise SpecError(f"has kind {kind!r}; write vendor/class")
    devices = document.get("devices")
    if not isinstance(devices, list):
        raise SpecError("has no list of devices")
    shared = frozenset(_nodes(document))
    return {
        f"{kind}={_device_name(device)}": shared | frozenset(_nodes(device)) for device in devices
    }


def _nodes(holder: Any) -> Iterator[str]:
    """Device nodes of a spec's or a device's edits; what is malformed there names none."""
    edits = holder.get("containerEdits")
    listed = edits.get("deviceNodes") if isinstance(edits, dict) else None
    for node in listed if isinstance(listed, list) else ():
        path = (node.get("hostPath") or node.get("path")) if isinstance(node, dict) else None
        if isinstance(path, str):
            yield path


def _device_name(device: Any) -> str:
    name = device.get("name") if isinstance(device, dict) else None
    if not isinstance(name, str) or not name:
        raise SpecError(f"has a device with the name {name!r}; names are strings")
    return name
