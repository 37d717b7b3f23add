"""All that the live view shows, as one frozen value."""

import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median

from deviceplugin.simulation.demo_pods import held_units
from deviceplugin.simulation.facts import Happening, Scraped
from deviceplugin.simulation.kubelet import SimulatedKubelet
from deviceplugin.simulation.names import Names
from deviceplugin.simulation.standing import Standing

KEPT_HAPPENINGS = 50
KEPT_LATENCIES = 200

_LEAVING = ("draining", "withdrawn", "holders unknown", "held-back", "held back")
"""States of units that the config does not give out; as the daemon's metrics call them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow:
    """A resource as the node shows it; ``note`` counts units by state where not all is well."""

    name: str
    capacity: int
    allocatable: int
    used: int
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """A physical device.

    Attributes:
        units: one letter each, in order: ``u`` used, ``f`` free, ``l`` leaving, ``x`` unhealthy.
        reason: why it is unhealthy; "" when it is not.

    """

    name: str
    units: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRow:
    """A pod and what it holds."""

    name: str
    holds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """Milliseconds; None for not yet measured."""

    admission: float | None = None
    admissions: int = 0
    edit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node at one moment.

    Attributes:
        configs: files to edit, one for each vendor.
        metrics: addresses of the daemons that have one.
        refused: what is wrong with the config that was refused last, () after a good one.
        unmet: entries of the config in force that this node cannot meet.

    """

    machine: str
    configs: tuple[str, ...]
    elapsed: float
    resources: tuple[ResourceRow, ...] = ()
    devices: tuple[DeviceRow, ...] = ()
    pods: tuple[PodRow, ...] = ()
    happenings: tuple[Happening, ...] = ()
    latencies: Latencies = Latencies()
    began: float = 0.0
    metrics: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Memory:
    """What the view keeps of the past; written by the node's loop alone."""

    began: float
    metrics: dict[str, str] = field(default_factory=dict)
    scraped: dict[str, Scraped] = field(default_factory=dict)
    happenings: deque[Happening] = field(default_factory=lambda: deque(maxlen=KEPT_HAPPENINGS))
    admissions: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_LATENCIES))
    admitted: int = 0
    edit: float | None = None
    standing: dict[str, Standing] = field(default_factory=dict)

    def admission(self, milliseconds: float) -> None:
        """Note how long an admission took."""
        self.admissions.append(milliseconds)
        self.admitted += 1

    def all_scraped(self) -> Scraped:
        """What the metrics of all daemons say; no device and no resource is in two of them."""
        return Scraped(
            reasons={k: v for each in self.scraped.values() for k, v in each.reasons.items()},
            states={k: v for each in self.scraped.values() for k, v in each.states.items()},
        )

    def latencies(self) -> Latencies:
        """Sum up."""
        middle = median(self.admissions) if self.admissions else None
        return Latencies(admission=middle, admissions=self.admitted, edit=self.edit)


def look(
    kubelet: SimulatedKubelet,
    names: Names,
    memory: Memory,
    *,
    machine: str,
    configs: tuple[str, ...],
) -> NodeView:
    """Look at a node."""
    held, scraped = held_units(kubelet), memory.all_scraped()
    standing = tuple(memory.standing.values())
    health = {resource: kubelet.devices(resource) for resource in sorted(kubelet.capacity())}
    return NodeView(
        machine=machine,
        configs=configs,
        elapsed=time.monotonic() - memory.began,
        resources=tuple(_resources(kubelet, held, scraped)),
        devices=tuple(devices(health, held, names, scraped)),
        pods=tuple(_pods(kubelet, names)),
        happenings=tuple(memory.happenings),
        latencies=memory.latencies(),
        began=memory.began,
        metrics=tuple(memory.metrics.values()),
        refused=tuple(line for each in standing for line in each.refused.lines),
        unmet=tuple(names.shorten(line) for each in standing for line in each.unmet.lines),
    )


def _resources(
    kubelet: SimulatedKubelet, held: Mapping[str, frozenset[str]], scraped: Scraped
) -> Iterable[ResourceRow]:
    allocatable = kubelet.allocatable()
    for resource, capacity in sorted(kubelet.capacity().items()):
        states = scraped.states.get(resource, {})
        ill = {state: count for state, count in states.items() if state != "healthy"}
        yield ResourceRow(
            name=resource,
            capacity=capacity,
            allocatable=allocatable.get(resource, 0),
            used=len(held.get(resource, ())),
            note=", ".join(f"{count} {state}" for state, count in sorted(ill.items())),
        )


def devices(
    health: Mapping[str, Mapping[str, str]],
    held: Mapping[str, frozenset[str]],
    names: Names,
    scraped: Scraped,
) -> Iterable[DeviceRow]:
    """Sort the units of all resources by physical device."""
    letters = _letters(health, frozenset().union(*held.values()), scraped)
    for name, units in groupby(names.in_order(letters), key=names.device):
        mine = list(units)
        yield DeviceRow(
            name=name,
            units="".join(letters[unit] for unit in mine),
            reason=next(filter(None, (scraped.reasons.get(_device(u), "") for u in mine)), ""),
        )


def _letters(
    health: Mapping[str, Mapping[str, str]], used: frozenset[str], scraped: Scraped
) -> Mapping[str, str]:
    healthy: dict[str, str] = {}
    others: dict[str, str] = {}
    for resource, units in health.items():
        states = scraped.states.get(resource, {})
        leaving = any(states.get(state) for state in _LEAVING)
        for unit, word in units.items():
            if word == "Healthy":
                healthy[unit] = "u" if unit in used else "f"
            # The kubelet knows one word for both; to the daemon too a fault comes first.
            elif leaving and _device(unit) not in scraped.reasons:
                others[unit] = "l"
            else:
                others.setdefault(unit, "x")
    # An id may be listed under two resources for a while: healthy in one of them is healthy.
    return others | healthy


def _device(unit: str) -> str:
    return unit.partition("::")[0]


def _pods(kubelet: SimulatedKubelet, names: Names) -> Iterable[PodRow]:
    for pod, containers in kubelet.pods().items():
        for resources in containers.values():
            for resource, units in resources.items():
                yield PodRow(name=pod, holds=f"{resource}: {names.listed(units)}")
