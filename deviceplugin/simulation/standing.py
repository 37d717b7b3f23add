"""What is wrong with the config now: it stays in view until it is right."""

from dataclasses import dataclass, field

from deviceplugin.simulation.facts import Edited, Fact, LogLine

_DEVICES_CHANGED = frozenset({"devices found", "device is unhealthy", "device is healthy again"})
"""After one of them other entries may be unmet; those told then replace those told before."""


@dataclass(slots=True)
class Batch:
    """Lines told together; the first one of a newer batch takes the place of them all."""

    lines: list[str] = field(default_factory=list)
    _old: bool = False

    def add(self, line: str) -> None:
        """Take a line; the same again is the same."""
        if self._old:
            self.clear()
        if line not in self.lines:
            self.lines.append(line)

    def age(self) -> None:
        """Keep the lines until there are newer ones."""
        self._old = True

    def clear(self) -> None:
        """Nothing is wrong."""
        self.lines.clear()
        self._old = False


@dataclass(slots=True)
class Standing:
    """The problems of a vendor's newest refused config, and what is unmet of the one in force."""

    refused: Batch = field(default_factory=Batch)
    unmet: Batch = field(default_factory=Batch)

    def take(self, fact: Fact) -> None:
        """Fold one fact; most say nothing about the config."""
        match fact:
            case Edited():
                self.refused.age()
            case LogLine(message=message) if message.startswith("config refused"):
                self.refused.add(str(fact.fields.get("problem", "")))
            case LogLine(message="config entry is unmet on this node"):
                if str(fact.fields.get("line", "")).startswith("1 of "):
                    self.unmet.clear()
                self.unmet.add(str(fact.fields.get("reason", "")))
            case LogLine(message="every config entry is met on this node"):
                self.unmet.clear()
            case LogLine(message="config in force"):
                self.refused.clear()
                self.unmet.age()
            case LogLine(message=message) if message in _DEVICES_CHANGED:
                self.unmet.age()
            case _:
                pass
