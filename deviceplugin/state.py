"""What survives a restart of the daemon: one small file per vendor in the state folder.

The file is an aid, never a condition: absent, broken, half written, of another node
set-up or of a newer version, it counts as empty, with one line that says so. Writing
goes through a second file, so that a crash or a full disk leaves the old one whole.
"""

import contextlib
import functools
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from deviceplugin.config.rules import Config, HealthPolicy
from deviceplugin.errors import DevicePluginError
from deviceplugin.faults import NEVER, Memory, Recovery, recalled
from deviceplugin.holders import Claim, remembered
from deviceplugin.inventory import Bounds, Inventory, Known
from deviceplugin.model import DeviceId, ResourceName
from deviceplugin.sharing import ranges
from deviceplugin.sharing.ids import slot_of, unit_id
from deviceplugin.sharing.listing import WANTED, Listing, Mark, Shelf
from deviceplugin.sharing.plan import Target

VERSION = 1
"""Of the format; a higher one was written by a newer daemon and means nothing to us."""

_MOST_BYTES = 16 * 1024 * 1024
"""Far above what 16 devices with 65,536 shares each need; a damaged disk gives us no more."""

_BEFORE = "listed before the restart"


class _UnusableError(DevicePluginError):
    """The file is there and cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which set-up a state belongs to; units of another are not ours to list.

    Attributes:
        plugin_dir: the kubelet's folder.
        library: the driver library asked for; "" for the usual one.
        machine: the simulated machine; "" for the real one.

    """

    plugin_dir: str = ""
    library: str = ""
    machine: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Listed slots of one device under one name, as ``sharing.ranges`` writes them."""

    wanted: str = ""
    leaving: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The content of the file.

    Attributes:
        boot: id of the boot it was written in; times and faults end with it.
        config_text: of the last good config; None when there was none.
        known: devices, each with the last boot that showed it.
        former: devices that are no more because their physical device is divided otherwise.
        targets: the plan that the list followed.
        units: the list, by name and device.
        faults: what was seen wrong in this boot, and what took it back.
        held: slots that pods may hold, as ``sharing.ranges`` writes them.
        kubelet: the one that said so; "" while it has not listed all of them, or nobody knows.

    """

    identity: Identity = Identity()
    boot: str = ""
    config_text: str | None = None
    config_source: str = ""
    known: tuple[Known, ...] = ()
    former: Mapping[DeviceId, DeviceId] = field(default_factory=dict)
    targets: Mapping[DeviceId, Target] = field(default_factory=dict)
    units: Mapping[ResourceName, Mapping[DeviceId, Units]] = field(default_factory=dict)
    faults: Memory = field(default_factory=Memory)
    held: Mapping[ResourceName, Mapping[DeviceId, str]] = field(default_factory=dict)
    kubelet: str = ""


def load(path: Path, identity: Identity, boot: str) -> tuple[State, str]:
    """Read the state for this set-up and boot, and a line about anything that was not used.

    Never raises; the line is "" when all is well.
    """
    empty = State(identity=identity, boot=boot)
    try:
        state = _parsed(_read(path))
        _check_identity(state.identity, identity)
    except FileNotFoundError:
        return empty, f"no state at {path}: this is the first start, or the folder is new"
    except OSError as error:
        return empty, f"state ignored: {path} cannot be read: {error.strerror}"
    except _UnusableError as error:
        return empty, f"state ignored: {path} {error}"
    if state.boot == boot:
        return state, ""
    over = len(recalled(state.faults, NEVER, Recovery()).all(HealthPolicy()))
    note = f"the node rebooted since the state was written: {over} faults are over" if over else ""
    return replace(state, boot=boot, faults=Memory()), note


def save(path: Path, state: State) -> str:
    """Write the state so that a reader finds the old or the new one, whole.

    Blocks for as long as the disk needs. Never raises: returns what is wrong, or "".
    """
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(part, _sealed(_adapter().dump_json(state)))
        part.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        return (
            f"{path} cannot be written: {error.strerror}; config, known units and faults"
            " will not survive a restart until the state folder is writable and has room"
        )
    return ""


def restore(
    state: State, bounds: Bounds | None = None, *, now: float | None = None
) -> tuple[Inventory, Listing]:
    """Begin where the last process ended. Units on their way out start their wait anew."""
    now = time.monotonic() if now is None else now
    bounds = bounds or Bounds()
    known = {each.device.id: each for each in state.known}
    inventory = Inventory(
        boot=state.boot,
        bounds=bounds,
        known=known,
        former=state.former,
        faults=recalled(state.faults, now, Recovery(hold=bounds.recovery_hold)),
        holders=remembered(_claims(state), until=now + bounds.restart_hold),
        kubelet_identity=state.kubelet,
    )
    shelves = {
        name: {device: _shelf(units, now) for device, units in row.items()}
        for name, row in state.units.items()
    }
    return inventory, Listing(shelves=shelves, targets=state.targets)


def snapshot(inventory: Inventory, listing: Listing, text: str, identity: Identity) -> State:
    """What to keep of the present. Pure; equal presents give equal states."""
    config = inventory.config or Config()
    # Defaults are no config that anybody wrote: they need no keeping.
    written = inventory.config is not None and bool(text)
    listed = listing.devices()
    return State(
        identity=identity,
        boot=inventory.boot,
        config_text=text if written else None,
        config_source=config.source if written else "",
        known=tuple(_slim(known) for known in inventory.known.values()),
        former={each: inventory.former[each] for each in inventory.former if each in listed},
        targets=dict(listing.targets),
        units={
            name: {device: _units(shelf) for device, shelf in row.items()}
            for name, row in listing.shelves.items()
            if row
        },
        faults=inventory.faults.memory(inventory.policy),
        held=_held(inventory, listing),
        kubelet=inventory.kubelet_identity if inventory.holders.proven else "",
    )


def _held(inventory: Inventory, listing: Listing) -> Mapping[ResourceName, Mapping[DeviceId, str]]:
    slots: dict[ResourceName, dict[DeviceId, set[int]]] = {}
    for name, unit in inventory.holders.claims():
        device, slot = slot_of(unit)
        if name in listing.shelves or device in inventory.known:
            slots.setdefault(name, {}).setdefault(device, set()).add(slot)
    return {
        name: {device: ranges.to_text(row[device]) for device in sorted(row)}
        for name, row in sorted(slots.items())
    }


def _claims(state: State) -> Iterator[Claim]:
    for name, row in state.held.items():
        for device, text in row.items():
            yield from ((name, unit_id(device, slot)) for slot in ranges.from_text(text))


def _slim(known: Known) -> Known:
    # What a container would need is found anew: it may be another after a restart.
    return replace(known, device=replace(known.device, nodes=(), cdi_names=(), attributes={}))


def _units(shelf: Shelf) -> Units:
    return Units(
        wanted=ranges.to_text(slot for slot, mark in shelf.items() if mark.healthy),
        leaving=ranges.to_text(slot for slot, mark in shelf.items() if not mark.healthy),
    )


def _shelf(units: Units, now: float) -> Shelf:
    gone = Mark(healthy=False, since=now, reason=_BEFORE)
    leaving = dict.fromkeys(ranges.from_text(units.leaving), gone)
    return {**leaving, **dict.fromkeys(ranges.from_text(units.wanted), WANTED)}


@functools.cache
def _adapter() -> TypeAdapter[State]:
    return TypeAdapter(State)


def _read(path: Path) -> bytes:
    # Without O_NONBLOCK a pipe in the file's place would block the start for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _UnusableError("is not a plain file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise _UnusableError(f"has more than {_MOST_BYTES:,} bytes")
    return data


def _sealed(data: bytes) -> bytes:
    """Put the line before the state that proves it whole: ours says version and digest."""
    header = {"version": VERSION, "sha256": hashlib.sha256(data).hexdigest()}
    return json.dumps(header).encode() + b"\n" + data


def _parsed(data: bytes) -> State:
    header, _, body = data.partition(b"\n")
    try:
        _check_header(json.loads(header), body)
        state = _adapter().validate_json(body, strict=True)
        restore(state, now=0.0)  # whatever the types allow and the ranges do not
    except (ValueError, RecursionError) as error:
        raise _UnusableError(f"is broken: {_short(error)}") from error
    return state


def _check_header(header: Any, body: bytes) -> None:
    version = header.get("version") if isinstance(header, dict) else None
    if not isinstance(version, int):
        raise _UnusableError("is broken: its first line names no version")
    if version != VERSION:
        raise _UnusableError(f"has format {version}, and this daemon reads format {VERSION}")
    if header.get("sha256") != hashlib.sha256(body).hexdigest():
        raise _UnusableError("is broken: it is not as it was written")


def _check_identity(found: Identity, ours: Identity) -> None:
    for name in ("machine", "plugin_dir", "library"):
        was, now = getattr(found, name), getattr(ours, name)
        if was != now:
            raise _UnusableError(f"is of another set-up: {name} was {was!r} and is {now!r}")


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error) or type(error).__name__


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
