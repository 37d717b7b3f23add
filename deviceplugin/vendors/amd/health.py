"""What the AMD threads know together: which GPUs to watch, and who has something against them.

Scan, polls and listeners each run on a thread. What they share is kept here, each value
written by one of them and replaced whole, so that nobody waits for anybody.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from deviceplugin.config.amd_options import AmdFlags
from deviceplugin.events import Emit, Scan, SeenGood, Symptom, WasReset
from deviceplugin.model import Action, Device, DeviceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Paces and bounds of the health threads, in seconds; lowered by tests.

    Attributes:
        poll: between two looks at all GPUs.
        calm_rounds: a GPU with nothing against it is said to be good every so many looks:
            each event costs the loop a turn.
        suspicion: a GPU counts as suspect, and each good look is said, for so long after its
            last symptom; longer than the longest hold-down.
        counters: between two looks at error counters; the driver asks the GPU for them.
        pages: between two looks at the list of retired pages.
        exporter, exporter_deadline: between two questions to the exporter; for one of them.
        library, library_deadline: the same for AMD's management library.
        retry: until what could not be opened is tried again.
        wait: one wait for events; a stop or another config is noticed after it.

    """

    poll: float = 1.0
    calm_rounds: int = 10
    suspicion: float = 600.0
    counters: float = 5.0
    pages: float = 60.0
    exporter: float = 10.0
    exporter_deadline: float = 5.0
    library: float = 60.0
    library_deadline: float = 10.0
    retry: float = 30.0
    wait: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A physical GPU to watch.

    Attributes:
        address: PCI address, which is its id.
        nodes: its nodes in KFD by number; none where they are hidden from us.
        gpu_ids: KFD's ids of it, in events.
        renders: render minors by device: of the GPU itself, or of its partitions.

    """

    address: str
    nodes: tuple[str, ...] = ()
    gpu_ids: tuple[int, ...] = ()
    renders: Mapping[DeviceId, str] = field(default_factory=dict)

    @property
    def id(self) -> DeviceId:
        """Whom its faults are raised against: all its partitions have them."""
        return DeviceId(self.address)


@dataclass(slots=True, kw_only=True)
class Health:
    """State shared by the threads.

    Attributes:
        flags: which sources are asked. The loop's.
        gpus: to watch, by address; one that was lost stays. The scan's.
        generation: KFD's, when they were found: while it is another, a scan is on its way.
        why_away: why the driver as a whole does not answer; "" while it does. The scan's.
        reloads: how often a driver that was away came back; its GPUs are as after a reset.
        resets: by address, how often a GPU was reset.
        condemned: devices that another than the poll holds to be bad, by who says so.

    """

    timing: Timing = field(default_factory=Timing)
    clock: Callable[[], float] = time.monotonic
    flags: AmdFlags = field(default_factory=AmdFlags)
    gpus: Mapping[str, Gpu] = field(default_factory=dict)
    generation: int | None = None
    why_away: str = "not scanned yet"
    reloads: int = 0
    resets: dict[str, int] = field(default_factory=dict)
    condemned: dict[str, frozenset[DeviceId]] = field(default_factory=dict)
    _suspects: dict[DeviceId, float] = field(default_factory=dict)
    _was_here: bool = False

    def configure(self, flags: AmdFlags) -> None:
        """Take over the flags of an accepted config."""
        self.flags = flags

    def saw(self, scan: Scan, generation: int | None) -> None:
        """Watch the GPUs found now and those that were lost, but none that was taken out."""
        found = _gpus(scan.devices)
        kept = {
            address: gpu
            for address, gpu in self.gpus.items()
            if address not in found and (scan.bus is None or address in scan.bus)
        }
        self.gpus, self.generation = found | kept, generation
        if self._was_here and self.why_away:
            self.reloads += 1
        self._was_here, self.why_away = True, ""

    def away(self, why: str) -> None:
        """Note that the driver as a whole does not answer: that judges no GPU."""
        self.why_away = why

    def symptom(self, device: DeviceId, kind: str, detail: str, action: Action, emit: Emit) -> None:
        """Emit a symptom and keep an eye on its device."""
        now = self.clock()
        self._suspects[device] = now
        emit(Symptom(device=device, kind=kind, detail=detail, action=action, at=now))

    def good(self, device: DeviceId, emit: Emit, *, say: bool) -> None:
        """Say that a device looked good, if it is suspect or ``say``, and nobody condemns it."""
        seen = self._suspects.get(device)
        suspect = seen is not None and self.clock() - seen <= self.timing.suspicion
        if (suspect or say) and not self.is_condemned(device):
            emit(SeenGood(device=device, at=self.clock()))

    def is_condemned(self, device: DeviceId) -> bool:
        """Whether another source holds it to be bad: no look of ours may clear that."""
        return any(device in devices for devices in tuple(self.condemned.values()))

    def reset(self, address: str | None, emit: Emit) -> None:
        """Emit that a GPU (None: each of them) was reset."""
        for each in self.gpus if address is None else [address]:
            self.resets[each] = self.resets.get(each, 0) + 1
        emit(WasReset(device=None if address is None else DeviceId(address), at=self.clock()))


def _gpus(devices: tuple[Device, ...]) -> dict[str, Gpu]:
    members: dict[str, list[Device]] = {}
    for device in devices:
        members.setdefault(device.physical, []).append(device)
    return {address: _gpu(address, found) for address, found in members.items()}


def _gpu(address: str, devices: list[Device]) -> Gpu:
    known = [device.attributes for device in devices]
    return Gpu(
        address=address,
        nodes=tuple(each["kfd_node"] for each in known if "kfd_node" in each),
        gpu_ids=tuple(int(each["gpu_id"]) for each in known if "gpu_id" in each),
        renders={
            device.id: device.attributes["render"]
            for device in devices
            if "render" in device.attributes
        },
    )
