"""What was seen wrong with devices, folded in any order to the same verdict.

Symptoms, good polls and resets reach the loop from several threads, so they may
arrive in another order than they arose. Everything kept here is a set of times
that only grows, and the verdict is computed from it: a later harmless event can
never heal an earlier fault, and an early one that arrives late changes nothing.

The verdict never changes by time alone. A device recovers because a poll saw it
good, so the loss of the monitor heals nothing and harms nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from deviceplugin.config.rules import HealthPolicy
from deviceplugin.events import Symptom
from deviceplugin.model import Action, Device, DeviceId, Fault

SEVERITY = {Action.RECOVER: 1, Action.RESET: 2, Action.REBOOT: 3}
"""Actions that make a device Unhealthy, and which of them is worse."""

LASTING = frozenset({Action.RESET, Action.REBOOT})
"""Faults that outlive a restart of the daemon, within the same boot."""

NEVER = float("-inf")

_EPISODES = 16
"""Kept per record; beyond it the oldest two become one. The hold-down has long stopped growing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """When a device that recovers by itself is trusted again; seconds.

    Attributes:
        hold: good for so long since the last bad sighting.
        limit: longest hold of a device that flaps; each return doubles it.
        memory: a return counts as flapping while its predecessor is no older.

    """

    hold: float = 10.0
    limit: float = 300.0
    memory: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All sightings of one kind on one device.

    Attributes:
        detail: of the latest sighting.
        action: the vendor's default, of the latest sighting.
        episodes: first and last sighting of each run of sightings, oldest first.

    """

    detail: str
    action: Action
    episodes: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        """Latest sighting."""
        return self.episodes[-1][1]

    def since(self, cleared: float, action: Action) -> float:
        """Begin of what goes on: the newest episode, or the oldest that nothing has cleared."""
        if action is Action.RECOVER:
            return self.episodes[-1][0]
        return next(first for first, last in self.episodes if last > cleared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A record as a restart of the daemon needs it.

    Attributes:
        episodes: as in ``Record``; of one that goes on only the begin is true.
        ongoing: nothing has ended it yet. Its sightings may come each second, and are not
            written down each.

    """

    device: DeviceId
    kind: str
    detail: str
    action: Action
    episodes: tuple[tuple[float, float], ...]
    ongoing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a restart of the daemon needs to judge as before, under any policy.

    It changes when a fault begins or ends, not with each poll: ``resets`` and ``good`` are
    the least times that still end what has ended.
    """

    records: tuple[Remembered, ...] = ()
    resets: Mapping[DeviceId, float] = field(default_factory=dict)
    good: Mapping[DeviceId, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Evidence about the devices of one vendor.

    Attributes:
        records: by device and kind.
        good: when each device was last seen good.
        resets: last reset of each device; None stands for all of them.
        inferred: last time that a fault of a kind being over told of a reset unseen.

    """

    recovery: Recovery = Recovery()
    records: Mapping[tuple[DeviceId, str], Record] = field(default_factory=dict)
    good: Mapping[DeviceId, float] = field(default_factory=dict)
    resets: Mapping[DeviceId | None, float] = field(default_factory=dict)
    inferred: Mapping[tuple[DeviceId, str], float] = field(default_factory=dict)

    def raised(self, symptom: Symptom) -> "Faults":
        """Add a sighting, harmless ones too: the config may come to judge them otherwise."""
        key = (symptom.device, symptom.kind)
        record = _sighted(self.records.get(key), symptom, self.recovery.hold)
        return replace(self, records={**self.records, key: record})

    def seen_good(self, device: DeviceId, at: float) -> "Faults":
        """Add a good poll; one older than the last changes nothing."""
        if at <= self.good.get(device, NEVER):
            return self
        return replace(self, good={**self.good, device: at})

    def was_reset(self, device: DeviceId | None, at: float) -> "Faults":
        """Add a reset of one device, or of all of them."""
        if at <= self.resets.get(device, NEVER):
            return self
        return replace(self, resets={**self.resets, device: at})

    def reset_inferred(self, device: DeviceId, witness: str, at: float) -> "Faults":
        """Add that a device is without fault ``witness``: where it stood, a reset ended it."""
        if at <= self.inferred.get((device, witness), NEVER):
            return self
        return replace(self, inferred={**self.inferred, (device, witness): at})

    def verdict(self, policy: HealthPolicy) -> Mapping[DeviceId, Fault]:
        """The fault to report for each Unhealthy device: the worst, of those the oldest."""
        worst: dict[DeviceId, Fault] = {}
        for fault in self.all(policy):
            worst.setdefault(fault.device, fault)
        return worst

    def all(self, policy: HealthPolicy) -> tuple[Fault, ...]:
        """Every fault that makes its device Unhealthy under this policy, worst first."""
        return tuple(sorted(self._standing(policy), key=_rank))

    def memory(self, policy: HealthPolicy) -> Memory:
        """What a restart must not forget.

        Left out is what clears by itself and what no reset would have to follow: it is seen
        again at once, or it is over.
        """
        kept = {
            key: record
            for key, record in sorted(self.records.items())
            if record.action is not Action.RECOVER
            or judged(key[1], record.action, policy) in LASTING
        }
        resets: dict[DeviceId, float] = {}
        good: dict[DeviceId, float] = {}
        for (device, _), record in kept.items():
            reset = self._reset(device)
            over = [last for _, last in record.episodes if last <= reset]
            resets[device] = max([resets.get(device, NEVER), *over])
            good[device] = max(good.get(device, NEVER), self._good_enough(device, record))
        return Memory(
            records=tuple(self._remembered(key, record) for key, record in kept.items()),
            resets=_known(resets),
            good=_known(good),
        )

    def _good_enough(self, device: DeviceId, record: Record) -> float:
        enough = record.last + hold_down(record, self.recovery)
        return enough if self.good.get(device, NEVER) >= enough else NEVER

    def _remembered(self, key: tuple[DeviceId, str], record: Record) -> Remembered:
        device, kind = key
        good = self._good_enough(device, record) > NEVER
        ongoing = not good and record.last > self._reset(device)
        *before, (first, last) = record.episodes
        return Remembered(
            device=device,
            kind=kind,
            detail=record.detail,
            action=record.action,
            episodes=(*before, (first, first if ongoing else last)),
            ongoing=ongoing,
        )

    def _standing(self, policy: HealthPolicy) -> Iterator[Fault]:
        for (device, kind), record in self.records.items():
            action = judged(kind, record.action, policy)
            cleared = self._cleared(device, record, action)
            if action in SEVERITY and record.last > cleared:
                yield Fault(
                    device=device,
                    kind=kind,
                    detail=record.detail,
                    since=record.since(cleared, action),
                    last=record.last,
                    action=action,
                )

    def _cleared(self, device: DeviceId, record: Record, action: Action) -> float:
        # Sightings up to the time returned no longer count.
        if action is Action.RECOVER:
            return self.good.get(device, NEVER) - hold_down(record, self.recovery)
        if action is Action.RESET:
            return self._reset(device)
        return NEVER

    def _reset(self, device: DeviceId) -> float:
        seen = max(self.resets.get(device, NEVER), self.resets.get(None, NEVER))
        inferred = (
            at
            for (each, kind), at in self.inferred.items()
            if each == device and self._stood(device, kind, seen, at)
        )
        return max([seen, *inferred])

    def _stood(self, device: DeviceId, kind: str, after: float, until: float) -> bool:
        record = self.records.get((device, kind))
        return record is not None and any(
            first <= until and last > after for first, last in record.episodes
        )


def against(device: Device, verdict: Mapping[DeviceId, Fault]) -> Fault | None:
    """The worst of what stands against a device and the physical one that it is a part of."""
    found = (verdict.get(each) for each in dict.fromkeys((device.id, device.physical)))
    return min((fault for fault in found if fault), key=_rank, default=None)


def recalled(memory: Memory, now: float, recovery: Recovery) -> Faults:
    """Begin with what the last process saw; what went on then goes on until ``now``.

    Raises:
        ValueError: a record was never sighted.

    """
    return Faults(
        recovery=recovery,
        records={(each.device, each.kind): _recalled(each, now) for each in memory.records},
        good=memory.good,
        resets={device: memory.resets[device] for device in memory.resets},
    )


def _recalled(each: Remembered, now: float) -> Record:
    if not each.episodes:
        raise ValueError(f"{each.kind} of {each.device} was never sighted")
    *before, (first, last) = each.episodes
    newest = (first, max(last, now) if each.ongoing else last)
    return Record(detail=each.detail, action=each.action, episodes=(*before, newest))


def _known(times: Mapping[DeviceId, float]) -> dict[DeviceId, float]:
    return {device: at for device, at in times.items() if at > NEVER}


def judged(kind: str, default: Action, policy: HealthPolicy) -> Action:
    """The action of a kind: the config's own word, then the switches, then the vendor's table.

    A kind that is switched on by name makes its device Unhealthy even where the table
    finds it harmless: that is what DP_ENABLE_HEALTHCHECKS is for.
    """
    if kind in policy.overrides:
        return policy.overrides[kind]
    if any(fnmatchcase(kind, name) for name in policy.enabled):
        return default if default in SEVERITY else Action.RECOVER
    if any(fnmatchcase(kind, name) for name in policy.disabled):
        return Action.IGNORE
    return default


def hold_down(record: Record, recovery: Recovery) -> float:
    """Seconds that a device must be good after this record: doubled by each recent return."""
    recent = sum(last >= record.last - recovery.memory for _, last in record.episodes)
    return min(recovery.hold * 2.0 ** (recent - 1), recovery.limit)


def _rank(fault: Fault) -> tuple[int, float, DeviceId, str]:
    return -SEVERITY[fault.action], fault.since, fault.device, fault.kind


def _sighted(record: Record | None, symptom: Symptom, gap: float) -> Record:
    if record is None:
        seen = ((symptom.at, symptom.at),)
        return Record(detail=symptom.detail, action=symptom.action, episodes=seen)
    episodes = _joined(record.episodes, symptom.at, gap)
    ours = (symptom.at, symptom.detail, symptom.action)
    # Two sightings of one instant need an order too, or the text would depend on who came first.
    if ours > (record.last, record.detail, record.action):
        return Record(detail=symptom.detail, action=symptom.action, episodes=episodes)
    return replace(record, episodes=episodes)


def _joined(
    episodes: tuple[tuple[float, float], ...], at: float, gap: float
) -> tuple[tuple[float, float], ...]:
    near = [each for each in episodes if each[0] - gap <= at <= each[1] + gap]
    first = min([at, *(first for first, _ in near)])
    last = max([at, *(last for _, last in near)])
    rest = [each for each in episodes if each not in near]
    joined = sorted([*rest, (first, last)])
    while len(joined) > _EPISODES:
        joined[:2] = [(joined[0][0], joined[1][1])]
    return tuple(joined)
