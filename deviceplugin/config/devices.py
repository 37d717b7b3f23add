"""Names of devices in a ``devices`` list, and which lists overlap."""

import re
from collections.abc import Callable, Iterable

from deviceplugin.config.rules import AllDevices, Devices, FirstDevices, ListedDevices

Grammar = Callable[[object], str]
"""Checks one item of a list and returns its one spelling; raises DeviceNameError."""

MAX_INDEX = 65_535

_INDEX = re.compile(r"0|[1-9][0-9]{0,4}", re.ASCII)
_MODEL = "model:"


class DeviceNameError(ValueError):
    """Not a device's name; ``str()`` is what to write instead."""


def any_name(value: object) -> str:
    """Accept what names a device of any vendor: an index, an id, or ``model:GLOB``."""
    return _index(value) or _model(value) or _identifier(value)


_GPU = re.compile(r"GPU-[0-9a-zA-Z]+(?:-[0-9a-zA-Z]+)*", re.ASCII)
_MIG = re.compile(r"MIG-.*|[0-9]+:[0-9]+", re.ASCII | re.DOTALL)


def nvidia_name(value: object) -> str:
    """Accept an index, a GPU's UUID, or ``model:GLOB``."""
    if name := _index(value) or _model(value):
        return name
    text = _identifier(value)
    if _MIG.fullmatch(text):
        raise DeviceNameError("MIG devices are not supported yet: name whole GPUs, such as 0")
    if not _GPU.fullmatch(text):
        raise DeviceNameError("write an index such as 0, a UUID GPU-…, or model:GLOB")
    return text


_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?:-p[0-9])?", re.ASCII)
_SHORT = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?:-p[0-9])?", re.ASCII)


def amd_name(value: object) -> str:
    """Accept an index, a PCI address (all its partitions), one partition, or ``model:GLOB``."""
    if name := _index(value) or _model(value):
        return name
    text = _identifier(value).lower()
    if _SHORT.fullmatch(text):
        raise DeviceNameError(f"write the whole address, 0000:{text}")
    if not _ADDRESS.fullmatch(text):
        raise DeviceNameError(
            "write an index such as 0, a PCI address such as 0000:05:00.0, a partition such as"
            " 0000:05:00.0-p3, or model:GLOB"
        )
    return text


def _index(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MAX_INDEX:
            raise DeviceNameError(f"write an index from 0 to {MAX_INDEX:,}")
        return str(value)
    return value if isinstance(value, str) and _INDEX.fullmatch(value) else ""


def _model(value: object) -> str:
    if not isinstance(value, str) or not value.startswith(_MODEL):
        return ""
    if not value.removeprefix(_MODEL).strip():
        raise DeviceNameError('write a product name after model:, such as "model:*H100*"')
    return value


def _identifier(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DeviceNameError("write an index such as 0, a device's id, or model:GLOB")
    return value


def selection(written: object) -> Devices:
    """Turn a checked ``devices`` value into the rule's own form."""
    match written:
        case int():
            return FirstDevices(count=written)
        case tuple():
            return ListedDevices(names=written)
        case _:
            return AllDevices()


def overlap(one: Devices, other: Devices) -> str:
    """Say which devices two selections share, as far as their text tells; "" for none.

    A UUID and an index may still be one device: that shows only on the node.
    """
    match one, other:
        case (AllDevices(), _) | (_, AllDevices()):
            return "all devices"
        case FirstDevices(count=count), FirstDevices(count=more):
            return f"the first {min(count, more)}"
        case FirstDevices(count=count), ListedDevices(names=names):
            return _listed(name for name in names if _within(name, count))
        case ListedDevices(), FirstDevices():
            return overlap(other, one)
        case ListedDevices(names=names), ListedDevices(names=others):
            return _listed(name for name in names if name in others)
    return ""


def _within(name: str, count: int) -> bool:
    return bool(_INDEX.fullmatch(name)) and int(name) < count


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
