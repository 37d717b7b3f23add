"""How one resource's service towards the kubelet goes: frozen counters and their fold."""

from dataclasses import dataclass, field, replace

from deviceplugin import events as ev
from deviceplugin.observe.histogram import Histogram

ServiceEvent = (
    ev.Allocated
    | ev.PreferredAnswered
    | ev.RegistrationTried
    | ev.StreamsChanged
    | ev.ListSent
    | ev.Displaced
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Counters since the process's start, and where things stand.

    Attributes:
        registered, refused: Register calls by result.
        error: of the last Register call; "" when it was accepted or none was made.
        streams: ListAndWatch streams open now.
        stream_lost: when the last stream ended; None while one is open and before the first.
        sends: lists sent.
        sent_at: when the last list went out.
        sent_bytes: its size on the wire.
        answered, denied: Allocate calls by result.
        allocate, prefer: seconds of all Allocate and GetPreferredAllocation answers.
        displaced: generations renewed because of a rival or a zombie stream.

    """

    registered: int = 0
    refused: int = 0
    error: str = ""
    streams: int = 0
    stream_lost: float | None = None
    sends: int = 0
    sent_at: float | None = None
    sent_bytes: int = 0
    answered: int = 0
    denied: int = 0
    allocate: Histogram = field(default_factory=Histogram)
    prefer: Histogram = field(default_factory=Histogram)
    displaced: int = 0


def serve(service: Service, event: ServiceEvent) -> Service:
    """Fold one event of the service's resource. Pure; microseconds."""
    match event:
        case ev.Allocated():
            return _allocated(service, event)
        case ev.PreferredAnswered():
            return replace(service, prefer=service.prefer.observed(event.seconds))
        case ev.RegistrationTried():
            return _registered(service, event)
        case ev.StreamsChanged():
            return _streams(service, event)
        case ev.ListSent():
            return replace(
                service, sends=service.sends + 1, sent_at=event.at, sent_bytes=event.size
            )
        case ev.Displaced():
            return replace(service, displaced=service.displaced + 1)


def _allocated(service: Service, event: ev.Allocated) -> Service:
    allocate = service.allocate.observed(event.seconds)
    if event.refused:
        return replace(service, allocate=allocate, denied=service.denied + 1)
    return replace(service, allocate=allocate, answered=service.answered + 1)


def _registered(service: Service, event: ev.RegistrationTried) -> Service:
    if event.error:
        return replace(service, error=event.error, refused=service.refused + 1)
    return replace(service, error="", registered=service.registered + 1)


def _streams(service: Service, event: ev.StreamsChanged) -> Service:
    if event.open:
        return replace(service, streams=event.open, stream_lost=None)
    lost = event.at if service.streams else service.stream_lost
    return replace(service, streams=0, stream_lost=lost)
