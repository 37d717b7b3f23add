"""Which config is in force at the start: the file's, the last good one, or the defaults.

A wrong file never means the defaults: whoever shared a GPU among ten pods would find it
unshared. It means the last good config, and without one nothing is served.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from deviceplugin import events as ev
from deviceplugin.config.load import ConfigInvalidError, default_config, load
from deviceplugin.config.rules import Config

_LAST_GOOD = "last good config"

FileEvent = ev.ConfigAccepted | ev.ConfigRefused | ev.ConfigMissing


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstConfig:
    """What can be chosen from.

    Attributes:
        vendor: whose schema and defaults.
        environment: the incumbents' variables among it count.
        last_good: text of the last good config; None when the state has none.
        last_source: the file it came from.

    """

    vendor: str
    environment: Mapping[str, str]
    last_good: str | None
    last_source: str

    def events(self, found: FileEvent) -> Iterator[ev.Event]:
        """What to fold for what the file said: what is in force instead, then the finding.

        In this order the finding lasts: an accepted config ends what was said of one before.
        """
        if isinstance(found, ev.ConfigAccepted):
            yield found
            return
        kept = self._kept(found)
        if kept is not None:
            yield kept
        elif isinstance(found, ev.ConfigMissing):
            yield from self._defaults(found)
        if isinstance(found, ev.ConfigRefused) or isinstance(kept, ev.ConfigAccepted):
            yield found

    def _kept(self, found: FileEvent) -> ev.Event | None:
        if self.last_good is None:
            return None
        name = f"{_LAST_GOOD} ({self.last_source.removeprefix(_LAST_GOOD).strip(' ()')})"
        return self._loaded(lambda: self._load(self.last_good or "", name), self.last_good, found)

    def _defaults(self, found: ev.ConfigMissing) -> Iterator[ev.Event]:
        yield self._loaded(lambda: self._default(found.source), "", found)

    def _load(self, text: str, name: str) -> Config:
        return load(self.vendor, text, file=name, env=self.environment)

    def _default(self, missing: str) -> Config:
        config = self._load("", "defaults") if self.environment else default_config(self.vendor)
        return replace(config, source=f"defaults (there is no {missing})")

    def _loaded(self, make: Callable[[], Config], text: str, found: FileEvent) -> ev.Event:
        try:
            return ev.ConfigAccepted(config=make(), text=text, at=found.at)
        except ConfigInvalidError as error:
            # A newer version can refuse what an older one took, and the environment can be wrong.
            return ev.ConfigRefused(source=self.vendor, problems=error.problems, at=found.at)
