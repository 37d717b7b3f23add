"""Frozen facts that may happen. Everyone emits them; the loop alone folds them.

``at`` is seconds of CLOCK_MONOTONIC, taken where the fact arose.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deviceplugin.config.rules import Config, Problem
from deviceplugin.model import Action, BackendState, Device, DeviceId, Links, ResourceName, UnitId


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What one look at the hardware found.

    Attributes:
        devices: sorted by index.
        bus: PCI addresses of this vendor's devices on the PCI bus; None where it cannot be read.
        problems: one line for each device that is there and is not among them, and why.
        links: how near the devices are to each other.

    """

    devices: tuple[Device, ...] = ()
    bus: frozenset[str] | None = None
    problems: tuple[str, ...] = ()
    links: Links = field(default_factory=Links)


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareChanged:
    """A source saw that the hardware is not as the last scan found it; a scan comes at once."""

    what: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """A scan ended well; it replaces the one before."""

    scan: Scan
    seconds: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChanged:
    """The driver is in another state (or the same with another detail)."""

    state: BackendState
    detail: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """Something wrong with a device was seen (again).

    ``action`` is the vendor's default for this kind; the config may override it.
    """

    device: DeviceId
    kind: str
    detail: str
    action: Action
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGood:
    """A poll found nothing wrong with a device: evidence towards recovery."""

    device: DeviceId
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WasReset:
    """A device was reset (or its driver reloaded): clears faults that wait for a reset.

    ``device`` None means every device of the vendor. ``witness`` "" means that the reset
    was seen; else it is inferred from a fault of that kind being over, and counts only
    where that fault is on record: the device was reset while nobody was looking.
    """

    device: DeviceId | None
    at: float
    witness: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAccepted:
    """A config is valid and replaces the one before. ``text`` is what the state folder keeps."""

    config: Config
    text: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRefused:
    """The file's text is wrong; whatever config was in force stays."""

    source: str
    problems: tuple[Problem, ...]
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMissing:
    """The file is not there; whatever config was in force stays."""

    source: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldersAnswered:
    """PodResources said who holds what.

    Attributes:
        begun: when the question was asked: what happened later is not in the answer.
        held: unit ids by resource, of all resources of the node that we may own.
        allocatable: what the kubelet would hand out, by resource.

    """

    begun: float
    held: Mapping[ResourceName, frozenset[UnitId]]
    allocatable: Mapping[ResourceName, frozenset[UnitId]]
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldersUnavailable:
    """PodResources did not answer: nobody's units may be dropped."""

    why: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocated:
    """An Allocate was answered (or refused, with the reason)."""

    resource: ResourceName
    units: tuple[UnitId, ...]
    refused: str
    seconds: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredAnswered:
    """A GetPreferredAllocation was answered."""

    resource: ResourceName
    size: int
    seconds: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletChanged:
    """The kubelet appeared, went away, or restarted (a new kubelet.sock).

    ``state`` is "absent" | "present" | "restarted"; ``detail`` says what was seen.
    ``identity`` tells its socket from that of any other kubelet, "" where nobody knows.
    """

    state: str
    detail: str
    at: float
    identity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationTried:
    """A Register call ended; ``error`` is "" when it was accepted."""

    resource: ResourceName
    endpoint: str
    error: str
    seconds: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsChanged:
    """ListAndWatch streams open now for a resource (1 when all is well).

    0 while the kubelet's own is not among them: another client's stream is of no use.
    """

    resource: ResourceName
    open: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSent:
    """A list went out on the kubelet's stream."""

    resource: ResourceName
    units: int
    healthy: int
    size: int  # bytes on the wire
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Displaced:
    """The audit found a rival under our name, or a zombie stream; the generation is renewed."""

    resource: ResourceName
    detail: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LockChanged:
    """Whether this process is the one that serves its vendor in the plugin folder.

    Attributes:
        held: the lock is ours; until then nothing is registered.
        holder_pid: who has it, where that is known (in the holder's pid namespace).
        detail: why it is not ours, in words for people; "" when it is.
        blocked: nobody need hold it: the plugin folder cannot be used, for that reason.

    """

    held: bool
    holder_pid: int | None
    detail: str
    at: float
    blocked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFailed:
    """A background source raised or ended; it runs again after ``retry_in`` seconds."""

    source: str
    error: str
    retry_in: float
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StateKept:
    """The state folder was written; ``problem`` is "" or why it could not be."""

    problem: str
    at: float


Event = (
    Scanned
    | HardwareChanged
    | BackendChanged
    | Symptom
    | SeenGood
    | WasReset
    | ConfigAccepted
    | ConfigRefused
    | ConfigMissing
    | HoldersAnswered
    | HoldersUnavailable
    | Allocated
    | PreferredAnswered
    | KubeletChanged
    | RegistrationTried
    | StreamsChanged
    | ListSent
    | Displaced
    | LockChanged
    | SourceFailed
    | StateKept
)

Emit = Callable[[Event], None]
"""Hands an event to the loop; never blocks, callable from any thread."""
