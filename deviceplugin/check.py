"""``deviceplugin check``: is a config valid, and what would it change on this node?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from itertools import combinations
from pathlib import Path
from typing import TextIO

from deviceplugin import events as ev
from deviceplugin import inventory as inv
from deviceplugin import state
from deviceplugin.backend import Backend, BackendUnavailableError
from deviceplugin.config import dialects
from deviceplugin.config.load import ConfigInvalidError, default_config, load
from deviceplugin.config.rules import Config
from deviceplugin.config.settings import RunSettings
from deviceplugin.model import ContainerEdits, ResourceView, Views
from deviceplugin.sharing import vendor as vendors
from deviceplugin.sharing.drain import step
from deviceplugin.sharing.fit import fit
from deviceplugin.sharing.listing import Listing
from deviceplugin.sharing.plan import Plan, Unmet, plan
from deviceplugin.sharing.size import list_size
from deviceplugin.sharing.views import views
from deviceplugin.watch.config_file import read

_AT = 0.0
"""Nothing here depends on time."""


def run(
    settings: RunSettings,
    file: Path,
    backend: Backend,
    environment: Mapping[str, str],
    out: TextIO,
) -> int:
    """Check ``file`` and write what is found to ``out``.

    Returns:
        0 for a valid config, entries that this node cannot meet included; 1 for one that is
        invalid or not there.

    """
    found = read(file, settings.vendor, environment, _AT)
    match found:
        case ev.ConfigAccepted(config=config):
            lines = _valid(settings, config, backend, environment)
            out.writelines(f"{line}\n" for line in lines)
            return 0
        case ev.ConfigRefused(problems=problems):
            out.writelines(f"{problem}\n" for problem in problems)
            out.write(f"{file} is invalid: {_count(len(problems), 'problem')}\n")
        case ev.ConfigMissing():
            out.write(f"{file}: there is no such file\n")
    return 1


def _valid(
    settings: RunSettings, config: Config, backend: Backend, environment: Mapping[str, str]
) -> Iterator[str]:
    yield from (f"warning: {warning}" for warning in config.warnings)
    warned = f", {_count(len(config.warnings), 'warning')}" if config.warnings else ""
    yield f"{config.source} is valid{warned}"
    before = _before(settings, environment)
    if before.note:
        yield f"note: {before.note}"
    try:
        scan = backend.discover()
    except BackendUnavailableError as error:
        yield f"no plan for this node: {error}"
        against = f" (compared with {before.name})"
        keys = dialects.of(settings.vendor).written
        yield from (f"{line}{against}" for line in _settings(before.config, config, keys))
        return
    where = f"simulated machine {settings.simulate}" if settings.simulate else "this node"
    yield f"on {where}: {_count(len(scan.devices), 'device')}"
    yield from (f"not served: {problem}" for problem in scan.problems)
    yield from _change(_Node(scan=scan, backend=backend), before, config)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """What to compare with, by which name, and why it is not the state's; "" when it is."""

    config: Config
    name: str
    note: str = ""


def _before(settings: RunSettings, environment: Mapping[str, str]) -> _Before:
    """Find what to compare with: the last good config of this set-up, else the defaults."""
    identity = state.Identity(
        plugin_dir=str(settings.plugin_dir),
        library=str(settings.nvml_library or ""),
        machine=settings.simulate,
    )
    kept, note = state.load(settings.state_dir / f"{settings.vendor}.json", identity, "")
    defaults = default_config(settings.vendor, environment)
    if kept.config_text is None:
        # A state that is used has notes on its faults at most, and no boot is known here.
        unused = kept == state.State(identity=identity)
        return _Before(config=defaults, name="the defaults", note=note if unused else "")
    name = "the last good config"
    try:
        config = load(settings.vendor, kept.config_text, file=name, env=environment)
    except ConfigInvalidError:  # an older version took what this one refuses
        return _Before(config=defaults, name=f"the defaults ({name} is invalid)")
    return _Before(config=config, name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """The hardware to plan for."""

    scan: ev.Scan
    backend: Backend

    def planned(self, config: Config, listing: Listing) -> tuple[inv.Inventory, Plan]:
        """Plan a config on a node that lists ``listing`` now."""
        inventory = inv.Inventory()
        for event in (
            ev.ConfigAccepted(config=config, text="", at=_AT),
            ev.Scanned(scan=self.scan, seconds=0.0, at=_AT),
        ):
            inventory = inv.apply(inventory, event)
        vendor = vendors.of(self.backend)
        return inventory, fit(plan(inventory, vendor.arrange), listing)

    def listed(self, inventory: inv.Inventory, planned: Plan) -> tuple[Listing, Views]:
        """List a plan as if nothing had been listed before it."""
        listing = step(Listing(), planned, inventory, _AT)
        return listing, views(planned, listing, inventory, self.backend.delivery)


def _change(node: _Node, before: _Before, after: Config) -> Iterator[str]:
    listing, old = node.listed(*node.planned(before.config, Listing()))
    # Units that only leave still count towards the size, so plan on top of the old list.
    inventory, planned = node.planned(after, listing)
    _, new = node.listed(inventory, planned)
    yield f"compared with {before.name}:"
    yield from _resources(old, new)
    yield from _settings(before.config, after, dialects.of(node.backend.vendor).written)
    yield from (f"unmet: {unmet}" for unmet in _unmet(planned, new))
    yield from (f"collision: {line}" for line in _collisions(new))


def _resources(old: Views, new: Views) -> Iterator[str]:
    names = sorted({*old, *new})
    width = max((len(name) for name in names), default=0)
    for name in names:
        was, will = _units(old.get(name)), _units(new.get(name))
        size = f", a list of {list_size(new[name]):,} bytes" if name in new else ""
        verb = _verb(was, will) + _given_out(new.get(name))
        yield f"  {name:<{width}}  {was:,} -> {will:,} units, {verb}{size}"


def _given_out(view: ResourceView | None) -> str:
    """How many units pods can get, where a strategy or a missing spec holds some back."""
    if view is None or not view.unhealthy:
        return ""
    return f" ({len(view.units) - len(view.unhealthy):,} given out)"


def _units(view: ResourceView | None) -> int:
    return len(view.units) if view else 0


def _verb(was: int, will: int) -> str:
    if was == will:
        return "stays"
    if not was:
        return "appears"
    if not will:
        return "vanishes"
    return "grows" if will > was else "shrinks"


def _settings(old: Config, new: Config, keys: Mapping[str, str]) -> Iterator[str]:
    """Tell settings apart that no count of units shows, by the keys that users write."""
    for part in ("allocation", "health", "flags"):
        was, will = getattr(old, part), getattr(new, part)
        if type(was) is not type(will) or not is_dataclass(will):
            continue
        for field in fields(will):
            one, other = getattr(was, field.name), getattr(will, field.name)
            if one != other:
                name = f"{part}.{field.name}"
                yield f"  {keys.get(name, name)}: {_text(one)} -> {_text(other)}"


def _text(value: object) -> str:
    match value:
        case tuple():
            return ", ".join(map(str, value)) or "none"
        case Mapping():
            return ", ".join(f"{key} {entry}" for key, entry in value.items()) or "none"
        case None:
            return "unset"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def _unmet(planned: Plan, shown: Views) -> Iterator[Unmet]:
    yield from planned.unmet
    for name, view in shown.items():
        if view.units and view.delivery.unmet:
            yield Unmet(where="", resource=name, reason=view.delivery.unmet)


def _collisions(shown: Views) -> Iterator[str]:
    """Find what is lost when a container asks for two resources at once.

    The kubelet keeps the first value of a variable, an annotation or a mount's target.
    """
    owners: dict[str, set[str]] = {}
    served = [view for view in shown.values() if view.devices]
    for one, other in combinations(served, 2):
        for key in _clash(one, other):
            owners.setdefault(key, set()).update((one.name, other.name))
    for key, names in owners.items():
        yield (
            f"{key} comes from each of {', '.join(sorted(names))}: a container that asks for two"
            " of them gets it from one only, and sees no device of the other"
        )


def _clash(one: ResourceView, other: ResourceView) -> Iterator[str]:
    ours = _answers(one.delivery.edits(list(one.devices.values())[:1]))
    theirs = _answers(other.delivery.edits(list(other.devices.values())[-1:]))
    for key, value in ours.items():
        if theirs.get(key, value) != value:
            yield key


def _answers(edits: ContainerEdits) -> Mapping[str, object]:
    mounts = {mount.container_path: mount.host_path for mount in edits.mounts}
    nodes = {node.container_path: node.host_path for node in edits.device_nodes}
    return {**edits.env, **edits.annotations, **mounts, **nodes}


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
