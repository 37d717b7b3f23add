"""All that metrics, probes and pages tell, in one frozen value folded from the events.

The daemon's loop folds and publishes it: counters need no lock of their own, and a
scrape reads one consistent value. Times are seconds of CLOCK_MONOTONIC.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, assert_never

from deviceplugin import events as ev
from deviceplugin.faults import against
from deviceplugin.model import BackendState, Device, DeviceId, Fault, ResourceName, Unit, Views
from deviceplugin.observe.service import Service, serve


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendStatus:
    """What the driver is to us; ``since`` is of the state, not of its detail."""

    state: BackendState = BackendState.STARTING
    detail: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryStatus:
    """The last scan that ended well."""

    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigStatus:
    """The config in force, and what became of the newest text.

    Attributes:
        generation: configs accepted since the start; 0 means none is in force.
        accepted_at: when the one in force was accepted.
        problems: why the newest text was refused; empty when it was accepted.
        refusals: texts refused since the start.
        missing: the file was not there when last looked for.
        restart_on_driver_mismatch: the user's flag: liveness fails on a replaced driver.

    """

    source: str = ""
    digest: str = ""
    generation: int = 0
    accepted_at: float | None = None
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    refusals: int = 0
    missing: bool = False
    restart_on_driver_mismatch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletStatus:
    """The kubelet as seen through its socket; ``state`` as in ``KubeletChanged``, "" before."""

    state: str = ""
    detail: str = ""
    since: float | None = None
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldersStatus:
    """Whether PodResources answers; ``known`` is None before it was asked."""

    known: bool | None = None
    why: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockStatus:
    """Whether this process is the one that serves; ``held`` is None before it was tried.

    ``blocked`` says that no process could serve: the plugin folder cannot be used.
    """

    held: bool | None = None
    holder_pid: int | None = None
    detail: str = ""
    blocked: bool = False
    since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHealth:
    """One physical device's verdict.

    Attributes:
        reason: bounded vocabulary, fit for a label: a fault's kind or ``missing``; "" when healthy.
        detail: one line for people.
        since: when the fault was first seen.

    """

    device: DeviceId
    name: str = ""
    reason: str = ""
    detail: str = ""
    since: float | None = None

    @property
    def healthy(self) -> bool:
        """No reason against it."""
        return not self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How often something was seen, and when last."""

    count: int = 0
    last: float = 0.0
    detail: str = ""


UnitCounts: TypeAlias = Mapping[str, int]
"""Units by state, one of ``STATES``; each unit counts once."""

HEALTHY = "healthy"
UNHEALTHY = "unhealthy"
STATES = (HEALTHY, UNHEALTHY, "draining", "withdrawn", "missing", "holders unknown", "held back")
"""States of units: health, then the reasons why an id that is no longer served stays listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The daemon at one moment.

    Attributes:
        simulated: the machine's name, "" on hardware.
        beat: the loop's last turn; the process's start before the first.
        listed: views were published at least once.
        units: of every resource listed since the start, empty ones too.
        devices: every device present or missed, in the driver's order.
        unmet: config entries that this node cannot meet now, one line each.
        symptoms: by device and kind; a poll that sees a fault again counts again.
        sources: failures of background work, by source.
        state_problem: why a restart would not find the present state; "" when it would.

    """

    vendor: str
    simulated: str = ""
    beat: float = field(default_factory=time.monotonic)
    listed: bool = False
    backend: BackendStatus = field(default_factory=BackendStatus)
    discovery: DiscoveryStatus = field(default_factory=DiscoveryStatus)
    config: ConfigStatus = field(default_factory=ConfigStatus)
    kubelet: KubeletStatus = field(default_factory=KubeletStatus)
    holders: HoldersStatus = field(default_factory=HoldersStatus)
    lock: LockStatus = field(default_factory=LockStatus)
    services: Mapping[ResourceName, Service] = field(default_factory=dict)
    units: Mapping[ResourceName, UnitCounts] = field(default_factory=dict)
    devices: tuple[DeviceHealth, ...] = ()
    unmet: tuple[str, ...] = ()
    symptoms: Mapping[tuple[DeviceId, str], Seen] = field(default_factory=dict)
    sources: Mapping[str, Seen] = field(default_factory=dict)
    state_problem: str = ""


def apply(status: Status, event: ev.Event) -> Status:  # noqa: C901 - one flat case a kind
    """Fold one event. Pure; microseconds, for a burst of pods is a burst of events."""
    match event:
        case (
            ev.Allocated()
            | ev.PreferredAnswered()
            | ev.RegistrationTried()
            | ev.StreamsChanged()
            | ev.ListSent()
            | ev.Displaced()
        ):
            service = serve(status.services.get(event.resource, _NEW), event)
            status = replace(status, services={**status.services, event.resource: service})
        case ev.ConfigAccepted() | ev.ConfigRefused() | ev.ConfigMissing():
            status = replace(status, config=_config(status.config, event))
        case ev.HoldersAnswered() | ev.HoldersUnavailable():
            status = replace(status, holders=_holders(status.holders, event))
        case ev.KubeletChanged():
            status = replace(status, kubelet=_kubelet(status.kubelet, event))
        case ev.BackendChanged():
            status = replace(status, backend=_backend(status.backend, event))
        case ev.Scanned():
            status = replace(status, discovery=_discovery(event))
        case ev.Symptom():
            status = replace(status, symptoms=_symptoms(status.symptoms, event))
        case ev.SourceFailed():
            status = replace(status, sources=_sources(status.sources, event))
        case ev.LockChanged():
            status = replace(status, lock=_lock(event))
        case ev.StateKept():
            status = replace(status, state_problem=event.problem)
        case ev.SeenGood() | ev.WasReset() | ev.HardwareChanged():
            pass
        case _:
            assert_never(event)
    return status


def with_views(
    status: Status, views: Views, *, devices: Sequence[DeviceHealth], unmet: tuple[str, ...]
) -> Status:
    """Take over what was planned. Pure; one pass over the units, so only where views changed."""
    units = {resource: _count(view.units) for resource, view in views.items()}
    return replace(status, listed=True, units=units, devices=tuple(devices), unmet=unmet)


def health(
    devices: Iterable[Device], faults: Mapping[DeviceId, Fault], missing: Iterable[DeviceId] = ()
) -> tuple[DeviceHealth, ...]:
    """Verdicts for ``with_views``: devices by index, then the missing ones by id. Pure."""
    present = sorted(devices, key=lambda device: (device.index, device.id))
    judged = [_judge(device, against(device, faults)) for device in present]
    gone = sorted(set(missing) - {device.id for device in present})
    return (*judged, *(_missed(device, faults.get(device)) for device in gone))


_NEW = Service()


def _missed(device: DeviceId, fault: Fault | None) -> DeviceHealth:
    if fault is None:
        return DeviceHealth(device=device, reason="missing")
    return DeviceHealth(device=device, reason=fault.kind, detail=fault.detail, since=fault.since)


def _judge(device: Device, fault: Fault | None) -> DeviceHealth:
    if fault is None:
        return DeviceHealth(device=device.id, name=device.name)
    return DeviceHealth(
        device=device.id,
        name=device.name,
        reason=fault.kind,
        detail=fault.detail,
        since=fault.since,
    )


def _count(units: Iterable[Unit]) -> UnitCounts:
    counts = Counter(HEALTHY if unit.healthy else _state(unit.reason) for unit in units)
    return {state: counts.get(state, 0) for state in STATES}


def _state(reason: str) -> str:
    state = reason.partition(":")[0]
    return state if state in STATES else UNHEALTHY


def _discovery(event: ev.Scanned) -> DiscoveryStatus:
    return DiscoveryStatus(seconds=event.seconds, problems=event.scan.problems, at=event.at)


def _config(
    config: ConfigStatus, event: ev.ConfigAccepted | ev.ConfigRefused | ev.ConfigMissing
) -> ConfigStatus:
    match event:
        case ev.ConfigAccepted():
            return _accepted(config, event)
        case ev.ConfigRefused():
            problems = tuple(str(problem) for problem in event.problems) or ("refused",)
            return replace(config, problems=problems, refusals=config.refusals + 1, missing=False)
        case ev.ConfigMissing():
            return replace(config, missing=True)


def _accepted(config: ConfigStatus, event: ev.ConfigAccepted) -> ConfigStatus:
    flags = event.config.flags
    return ConfigStatus(
        source=event.config.source,
        digest=event.config.digest,
        generation=config.generation + 1,
        accepted_at=event.at,
        warnings=event.config.warnings,
        refusals=config.refusals,
        # Each vendor has its own options; those without this one cannot ask for it.
        restart_on_driver_mismatch=bool(getattr(flags, "restart_on_driver_mismatch", False)),
    )


def _holders(
    holders: HoldersStatus, event: ev.HoldersAnswered | ev.HoldersUnavailable
) -> HoldersStatus:
    why = event.why if isinstance(event, ev.HoldersUnavailable) else ""
    known = isinstance(event, ev.HoldersAnswered)
    if (known, why) == (holders.known, holders.why):
        return holders
    since = holders.since if known == holders.known else event.at
    return HoldersStatus(known=known, why=why, since=since)


def _kubelet(kubelet: KubeletStatus, event: ev.KubeletChanged) -> KubeletStatus:
    restarts = kubelet.restarts + (event.state == "restarted")
    since = kubelet.since if event.state == kubelet.state == "absent" else event.at
    return KubeletStatus(state=event.state, detail=event.detail, since=since, restarts=restarts)


def _backend(backend: BackendStatus, event: ev.BackendChanged) -> BackendStatus:
    since = backend.since if event.state is backend.state else event.at
    return BackendStatus(state=event.state, detail=event.detail, since=since)


def _lock(event: ev.LockChanged) -> LockStatus:
    return LockStatus(
        held=event.held,
        holder_pid=event.holder_pid,
        detail=event.detail,
        blocked=event.blocked,
        since=event.at,
    )


def _symptoms(
    symptoms: Mapping[tuple[DeviceId, str], Seen], event: ev.Symptom
) -> Mapping[tuple[DeviceId, str], Seen]:
    key = (event.device, event.kind)
    count = symptoms.get(key, Seen()).count + 1
    return {**symptoms, key: Seen(count=count, last=event.at, detail=event.detail)}


def _sources(sources: Mapping[str, Seen], event: ev.SourceFailed) -> Mapping[str, Seen]:
    count = sources.get(event.source, Seen()).count + 1
    return {**sources, event.source: Seen(count=count, last=event.at, detail=event.error)}
