"""Metric families over a status: names, labels and help texts, and nothing else.

Names are an interface that dashboards and alerts hold on to: tests/golden/metrics.txt
has them all. Labels are bounded: resources, devices of this node, kinds of faults.
"""

import platform
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from prometheus_client.core import Metric

from deviceplugin.model import BackendState
from deviceplugin.observe.probes import not_ready
from deviceplugin.observe.samples import Clock, counter, gauge, histogram
from deviceplugin.observe.status import Status

_KUBELET_STATES = ("absent", "present", "restarted")


def families(status: Status, clock: Clock) -> Iterator[Metric]:
    """Every family of ``device_plugin_*``, those without samples included, in a fixed order."""
    yield from _process(status, clock)
    yield from _devices(status, clock)
    yield from _kubelet(status, clock)
    yield from _allocation(status)
    yield from _config(status, clock)
    yield from _background(status)


def _process(status: Status, clock: Clock) -> Iterator[Metric]:
    build = (_version(), status.vendor, platform.python_version())
    yield gauge("build_info", "Always 1.", ("version", "vendor", "python_version"), {build: 1.0})
    yield gauge("simulated", "1 when a simulated machine is served.", (), _one(status.simulated))
    ready = not not_ready(status, clock.monotonic)
    yield gauge("ready", "What /readyz says.", (), _one(ready))
    if status.lock.held is not None:
        yield gauge(
            "lock_held",
            "0 while another process serves this vendor, or the plugin folder cannot be used.",
            (),
            _one(status.lock.held),
        )
    yield gauge(
        "backend_state",
        "1 for the state the driver is in.",
        ("state",),
        {(state.value,): float(state is status.backend.state) for state in BackendState},
    )


def _devices(status: Status, clock: Clock) -> Iterator[Metric]:
    units = {
        (resource, state.replace(" ", "-")): float(count)
        for resource, counts in status.units.items()
        for state, count in counts.items()
    }
    yield gauge("devices", "Units listed to the kubelet.", ("resource", "state"), units)
    health = {(h.device, h.reason): float(h.healthy) for h in status.devices}
    yield gauge(
        "device_health",
        "1 when a physical device is healthy, else 0 with the reason.",
        ("device", "reason"),
        health,
    )
    seen = {key: float(symptom.count) for key, symptom in status.symptoms.items()}
    yield counter(
        "symptoms", "Sightings of faults; a poll that sees one again counts again.", _SYMPTOM, seen
    )
    last = {key: clock.wall(symptom.last) for key, symptom in status.symptoms.items()}
    yield gauge("symptom_last_timestamp_seconds", "Latest sighting.", _SYMPTOM, last)


def _kubelet(status: Status, clock: Clock) -> Iterator[Metric]:
    yield gauge(
        "kubelet_state",
        "1 for what was last seen of the kubelet's socket.",
        ("state",),
        {(state,): float(state == status.kubelet.state) for state in _KUBELET_STATES},
    )
    yield counter(
        "kubelet_restarts", "Restarts of the kubelet seen.", (), {(): status.kubelet.restarts}
    )
    services = status.services.items()
    tried = {(r, "ok"): s.registered for r, s in services}
    tried |= {(r, "error"): s.refused for r, s in services}
    yield counter("registrations", "Register calls.", _RESULT, tried)
    yield counter(
        "displaced",
        "Registrations renewed because of a rival or a stream that leads nowhere.",
        _RESOURCE,
        {(r,): s.displaced for r, s in services},
    )
    yield gauge(
        "listandwatch_streams",
        "Streams open; 1 when all is well.",
        _RESOURCE,
        {(r,): s.streams for r, s in services},
    )
    yield counter(
        "listandwatch_sends", "Lists sent.", _RESOURCE, {(r,): s.sends for r, s in services}
    )
    sent = [(r, s, s.sent_at) for r, s in services if s.sent_at is not None]
    yield gauge(
        "listandwatch_payload_bytes",
        "Size of the last list; the kubelet takes up to 4 MiB.",
        _RESOURCE,
        {(r,): s.sent_bytes for r, s, _ in sent},
    )
    yield gauge(
        "listandwatch_last_send_timestamp_seconds",
        "When the last list was sent.",
        _RESOURCE,
        {(r,): clock.wall(at) for r, _, at in sent},
    )
    known = status.holders.known
    yield gauge(
        "holders_known",
        "1 when PodResources says who holds which units; 0: no unit is dropped.",
        (),
        _one(known) if known is not None else {},
    )


def _allocation(status: Status) -> Iterator[Metric]:
    services = status.services.items()
    calls = {(r, "ok"): s.answered for r, s in services}
    calls |= {(r, "refused"): s.denied for r, s in services}
    yield counter("allocations", "Allocate calls answered.", _RESULT, calls)
    yield histogram(
        "allocate_duration_seconds",
        "Time to answer Allocate.",
        {(r,): s.allocate for r, s in services},
    )
    yield histogram(
        "preferred_allocation_duration_seconds",
        "Time to answer GetPreferredAllocation.",
        {(r,): s.prefer for r, s in services},
    )


def _config(status: Status, clock: Clock) -> Iterator[Metric]:
    config = status.config
    tried = bool(config.generation or config.problems)
    yield gauge(
        "config_last_reload_success",
        "0 while the newest config text is refused and an older one, or none, is in force.",
        (),
        _one(not config.problems) if tried else {},
    )
    yield gauge(
        "config_last_reload_timestamp_seconds",
        "When the config in force was accepted.",
        (),
        {(): clock.wall(config.accepted_at)} if config.accepted_at is not None else {},
    )
    yield counter("config_reloads", "Configs accepted.", (), {(): config.generation})
    yield counter("config_rejections", "Configs refused.", (), {(): config.refusals})
    yield gauge(
        "config_info",
        "The config in force.",
        ("source", "digest"),
        {(config.source, config.digest): 1.0} if config.generation else {},
    )
    yield gauge(
        "config_warnings", "Warnings of the config in force.", (), {(): len(config.warnings)}
    )
    yield gauge(
        "config_unmet_entries",
        "Entries that this node cannot meet now.",
        (),
        {(): len(status.unmet)},
    )


def _background(status: Status) -> Iterator[Metric]:
    yield counter(
        "source_failures",
        "Failures of background work, each tried again.",
        ("source",),
        {(source,): seen.count for source, seen in status.sources.items()},
    )
    yield gauge(
        "discovery_duration_seconds",
        "Time of the last look at the hardware.",
        (),
        {(): status.discovery.seconds} if status.discovery.at is not None else {},
    )
    yield gauge(
        "discovery_problems",
        "Devices that are there and could not be served after it.",
        (),
        {(): len(status.discovery.problems)},
    )
    yield gauge(
        "state_saved",
        "0 while the state folder cannot be written: a restart would forget.",
        (),
        _one(not status.state_problem),
    )


_RESOURCE = ("resource",)
_RESULT = ("resource", "result")
_SYMPTOM = ("device", "kind")


@cache
def _version() -> str:
    try:
        return version("deviceplugin")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"


def _one(value: object) -> Mapping[tuple[()], float]:
    return {(): float(bool(value))}
