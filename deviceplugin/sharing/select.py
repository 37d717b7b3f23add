"""Which devices of a resource an entry of the config means."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import assert_never

from deviceplugin.config.rules import AllDevices, Devices, FirstDevices, ListedDevices
from deviceplugin.model import Device

MODEL = "model:"
"""Prefix of a pattern over product names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is there of the devices meant; ``absent`` has a line for each that is not."""

    devices: tuple[Device, ...]
    absent: tuple[str, ...] = ()


def select(wanted: Devices, devices: Sequence[Device]) -> Selection:
    """Pick from the devices of one resource, given in the order of their indexes. Pure."""
    match wanted:
        case AllDevices():
            return Selection(devices=tuple(devices))
        case FirstDevices(count=count):
            return _first(count, devices)
        case ListedDevices(names=names):
            return _listed(names, devices)
        case _:
            assert_never(wanted)


def _first(count: int, devices: Sequence[Device]) -> Selection:
    found = len(devices)
    short = f"the first {count} devices are wanted and {found} are known here"
    return Selection(devices=tuple(devices[:count]), absent=(short,) if found < count else ())


def _listed(names: Iterable[str], devices: Sequence[Device]) -> Selection:
    matches = {name: _named(name, devices) for name in names}
    picked = {device.id: device for found in matches.values() for device in found}
    return Selection(
        devices=tuple(device for device in devices if device.id in picked),
        absent=tuple(_absent(name, devices) for name, found in matches.items() if not found),
    )


def _named(name: str, devices: Sequence[Device]) -> list[Device]:
    if name.startswith(MODEL):
        pattern = name.removeprefix(MODEL).strip().casefold()
        return [each for each in devices if fnmatchcase(each.name.casefold(), pattern)]
    if name.isascii() and name.isdigit():
        # Where a missing device once had the same index, the present one comes last and is meant.
        return [each for each in devices if each.index == int(name)][-1:]
    return [each for each in devices if name in (each.id, each.physical)]


def _absent(name: str, devices: Sequence[Device]) -> str:
    if name.startswith(MODEL):
        models = ", ".join(sorted({repr(device.name) for device in devices}))
        return (
            f"no device here has a model like {name.removeprefix(MODEL).strip()!r}; here: {models}"
        )
    if name.isascii() and name.isdigit():
        indexes = ", ".join(str(device.index) for device in devices)
        return f"no device here has index {name}; here: {indexes}"
    return f"device {name} is not on this node"
