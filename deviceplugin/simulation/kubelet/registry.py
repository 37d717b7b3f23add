"""Which plugin answers for a resource, by the rules of the kubelet's two eras.

All methods are called under the journal's lock.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from deviceplugin.simulation.kubelet.outcomes import RegistrationRefusedError
from deviceplugin.simulation.kubelet.plugin import Plugin

LateEnd = Literal["wipe", "deaf", "broken"]
"""What an old stream's late end does to the plugin registered meanwhile, up to 1.36.

wipe: it is cut off, all devices unhealthy, and the plugin sees its stream cancelled.
deaf: nothing is seen, but its own later end will go unnoticed.
broken: stream and counts look right, and every Allocate fails.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What follows from the end of a stream."""

    lost: bool = False  # nobody speaks for the resource any more
    stopped: Plugin | None = None  # counts as gone from now on
    close: Plugin | None = None


class Registry(Protocol):
    """Plugins from their Register to their end."""

    def opening(self, plugin: Plugin) -> None:
        """A Register came in; nothing is connected yet."""

    def failed(self, plugin: Plugin) -> None:
        """That Register is answered with an error."""

    def connected(self, plugin: Plugin) -> None:
        """Dialled back, options read.

        Raises:
            RegistrationRefusedError: this path may not register (again).

        """

    def ended(self, plugin: Plugin) -> Ending:
        """Fold in that a plugin's stream has ended."""

    def primary(self, resource: str) -> Plugin | None:
        """Whoever is asked to allocate."""

    def forget(self, resource: str) -> None:
        """Drop a resource whose last plugin stayed away for too long."""


@dataclass(slots=True, kw_only=True)
class ByResource:
    """Up to 1.36: the newest registration of a resource name replaces the one before.

    The old connection is leaked, and the handler of its end looks the client up by
    resource name: it finds, and hurts, the new one.
    """

    late_end: LateEnd = "wipe"
    clients: dict[str, Plugin] = field(default_factory=dict)
    endpoints: dict[str, Plugin] = field(default_factory=dict)

    def opening(self, plugin: Plugin) -> None:
        """Take the resource's place at once, even before the dial back."""
        self.clients[plugin.resource] = plugin

    def failed(self, plugin: Plugin) -> None:
        """Clear the place; an incumbent's later end then goes unnoticed."""
        self.clients.pop(plugin.resource, None)

    def connected(self, plugin: Plugin) -> None:
        """Serve from now on."""
        self.endpoints[plugin.resource] = plugin

    def ended(self, plugin: Plugin) -> Ending:
        """End whatever client the resource name has now."""
        found = self.clients.pop(plugin.resource, None)
        if found is None:
            return Ending()
        stopped = self.endpoints.get(plugin.resource)
        if found is plugin or self.late_end == "wipe":
            # One that has not connected yet cannot be closed: it goes on, deaf.
            return Ending(lost=True, stopped=stopped, close=found if found is stopped else None)
        return Ending(stopped=stopped if self.late_end == "broken" else None)

    def primary(self, resource: str) -> Plugin | None:
        """The last that connected."""
        return self.endpoints.get(resource)

    def forget(self, resource: str) -> None:
        """Drop it."""
        self.endpoints.pop(resource, None)


@dataclass(slots=True, kw_only=True)
class ByPath:
    """From 1.37: plugins are told apart by resource and socket path, and may overlap.

    The clean-up after a refusal forgets every client on that path, the incumbent
    too: its endpoint then stays for ever, whatever becomes of it.
    """

    clients: dict[tuple[str, Path], Plugin] = field(default_factory=dict)
    endpoints: dict[str, dict[Path, Plugin]] = field(default_factory=dict)

    def opening(self, plugin: Plugin) -> None:
        """Take the path's place."""
        self.clients[plugin.resource, plugin.path] = plugin

    def failed(self, plugin: Plugin) -> None:
        """Forget the path."""
        self.clients.pop((plugin.resource, plugin.path), None)

    def connected(self, plugin: Plugin) -> None:
        """Become the primary beside those that are there; the same path is refused."""
        known = self.endpoints.setdefault(plugin.resource, {})
        incumbent = known.get(plugin.path)
        if incumbent is not None and incumbent.stopped is None:
            raise RegistrationRefusedError(f"device plugin already connected on {plugin.path}")
        for path in [path for path, each in known.items() if each.stopped is not None]:
            del known[path]
        known[plugin.path] = plugin

    def ended(self, plugin: Plugin) -> Ending:
        """End this path only; a survivor is promoted."""
        found = self.clients.pop((plugin.resource, plugin.path), None)
        if found is None:
            return Ending()
        known = self.endpoints.get(plugin.resource, {})
        if len(known) > 1:
            known.pop(plugin.path, None)
            return Ending(close=found)
        return Ending(lost=True, stopped=known.get(plugin.path), close=found)

    def primary(self, resource: str) -> Plugin | None:
        """The newest that is left."""
        return next(reversed(self.endpoints.get(resource, {}).values()), None)

    def forget(self, resource: str) -> None:
        """Drop it."""
        self.endpoints.pop(resource, None)


def registry(era: str, late_end: LateEnd) -> Registry:
    """Return the rules of an era, "1.36" (and before) or "1.37".

    Raises:
        ValueError: another era.

    """
    match era:
        case "1.36":
            return ByResource(late_end=late_end)
        case "1.37":
            return ByPath()
        case _:
            raise ValueError(f'era {era!r} is not simulated; write "1.36" or "1.37"')
