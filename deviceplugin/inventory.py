"""All that is known of one vendor on this node, folded from events. Pure: times come in.

What was known once is not forgotten because a scan did not show it: a device that is
not found stays, without a healthy unit, until a later boot proves it gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from deviceplugin import events as ev
from deviceplugin.config.rules import Config, HealthPolicy
from deviceplugin.faults import Faults
from deviceplugin.holders import Holders
from deviceplugin.model import BackendState, Device, DeviceId, Fault, Links

GONE = frozenset({BackendState.NO_LIBRARY, BackendState.NO_DRIVER, BackendState.NO_DEVICES})
"""States in which no device can work. In all others devices keep their last verdict: the
loss of the monitor is not the loss of what it watched."""

_UNREACHED = GONE | {BackendState.STARTING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Waiting times of the plan, in seconds.

    Attributes:
        withdrawn_hold: a unit is listed Unhealthy so long before it may leave the list:
            the kubelet may have chosen it just before.
        restart_hold: a unit held before a kubelet restart counts as held so long,
            unless the new kubelet listed it and then dropped it.
        recovery_hold: a fault that clears by itself clears after being good so long
            (``state.restore`` hands it to the faults; see ``faults.Recovery``).

    """

    withdrawn_hold: float = 30.0
    restart_hold: float = 600.0
    recovery_hold: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A device that was found at some time; ``boot`` is the last boot in which it was."""

    device: Device
    boot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """One vendor on this node.

    Attributes:
        boot: id of this boot.
        devices: what the last scan found, by id, in its order.
        known: every device not proven gone, those of ``devices`` included.
        former: devices that are no more because their physical device, the value, is divided
            otherwise now. Pods may still hold them.
        links: how near the devices are to each other.
        bus: PCI addresses of the vendor's devices; None where unknown.
        problems: of the last scan, a line for each device that is there and not among them.
        scanned: a scan ended well since the start.
        kubelet_identity: of the kubelet last seen; until one is, of that seen last before
            our restart.
        config: the one in force; None when there never was a valid one.

    """

    boot: str = ""
    bounds: Bounds = Bounds()
    devices: Mapping[DeviceId, Device] = field(default_factory=dict)
    known: Mapping[DeviceId, Known] = field(default_factory=dict)
    former: Mapping[DeviceId, DeviceId] = field(default_factory=dict)
    links: Links = field(default_factory=Links)
    bus: frozenset[str] | None = None
    problems: tuple[str, ...] = ()
    scanned: bool = False
    backend: BackendState = BackendState.STARTING
    backend_detail: str = ""
    kubelet: str = ""
    kubelet_identity: str = ""
    config: Config | None = None
    faults: Faults = field(default_factory=Faults)
    holders: Holders = field(default_factory=Holders)

    @property
    def policy(self) -> HealthPolicy:
        """How symptoms are judged now."""
        return self.config.health if self.config else HealthPolicy()

    def all_devices(self) -> dict[DeviceId, Device]:
        """Found and missing devices by id, in the order of their indexes.

        A missing device keeps its place: the loss of GPU 0 must not make GPU 2 one of
        "the first two". Its index may meanwhile be another's, who then comes second.
        """
        devices = {known.device.id: known.device for known in self.known.values()} | dict(
            self.devices
        )
        return {each.id: each for each in sorted(devices.values(), key=self._place)}

    def missing(self) -> tuple[Device, ...]:
        """Known devices that the last scan did not find."""
        return tuple(
            each.device for each in self.known.values() if each.device.id not in self.devices
        )

    def verdict(self) -> Mapping[DeviceId, Fault]:
        """What stands against each device that is Unhealthy by a fault."""
        return self.faults.verdict(self.policy)

    def _place(self, device: Device) -> tuple[int, bool, DeviceId]:
        return device.index, device.id in self.devices, device.id


def apply(inventory: Inventory, event: ev.Event) -> Inventory:
    """Fold one event; one that changes nothing returns the very same inventory."""
    match event:
        case ev.Scanned() | ev.BackendChanged():
            return _hardware(inventory, event)
        case ev.Symptom() | ev.SeenGood() | ev.WasReset():
            return _health(inventory, event)
        case ev.HoldersAnswered() | ev.HoldersUnavailable() | ev.Allocated() | ev.KubeletChanged():
            return _pods(inventory, event)
        case ev.ConfigAccepted():
            return replace(inventory, config=event.config)
        case (
            ev.ConfigRefused()
            | ev.ConfigMissing()
            | ev.HardwareChanged()
            | ev.PreferredAnswered()
            | ev.RegistrationTried()
            | ev.StreamsChanged()
            | ev.ListSent()
            | ev.Displaced()
            | ev.LockChanged()
            | ev.SourceFailed()
            | ev.StateKept()
        ):
            return inventory
        case _:
            assert_never(event)


def settled(before: Inventory, after: Inventory) -> bool:
    """Whether no plan can differ between the two: polls that find all well cost nothing more."""
    if before is after:
        return True
    return replace(before, faults=after.faults) == after and before.verdict() == after.verdict()


def _hardware(inventory: Inventory, event: ev.Scanned | ev.BackendChanged) -> Inventory:
    match event:
        case ev.Scanned(scan=scan):
            return _scanned(inventory, scan)
        case ev.BackendChanged(state=state, detail=detail):
            return replace(inventory, backend=state, backend_detail=detail)
        case _:
            assert_never(event)


def _scanned(inventory: Inventory, scan: ev.Scan) -> Inventory:
    found = {device.id: device for device in scan.devices}
    now_known = {each: Known(device=found[each], boot=inventory.boot) for each in found}
    layouts = {device.physical: device.layout for device in scan.devices}
    replaced = {
        each: known.device.physical
        for each, known in inventory.known.items()
        if _is_replaced(known.device, layouts)
    }
    former = {**inventory.former, **replaced}
    kept = {
        each: known
        for each, known in inventory.known.items()
        if each not in replaced and not _is_gone(known, inventory, scan)
    }
    answers = inventory.backend in _UNREACHED
    return replace(
        inventory,
        devices=found,
        known=kept | now_known,
        former={each: former[each] for each in former if each not in found},
        links=scan.links,
        bus=scan.bus,
        problems=scan.problems,
        scanned=True,
        backend=BackendState.READY if answers else inventory.backend,
        backend_detail="" if answers else inventory.backend_detail,
    )


def _is_replaced(device: Device, layouts: Mapping[DeviceId, str]) -> bool:
    return layouts.get(device.physical, device.layout) != device.layout


def _is_gone(known: Known, inventory: Inventory, scan: ev.Scan) -> bool:
    # In the boot that last showed it a device may come back; later the bus is the witness.
    if known.boot == inventory.boot or scan.bus is None:
        return False
    return known.device.pci_address not in scan.bus


def _health(inventory: Inventory, event: ev.Symptom | ev.SeenGood | ev.WasReset) -> Inventory:
    faults = inventory.faults
    match event:
        case ev.Symptom():
            faults = faults.raised(event)
        case ev.SeenGood(device=device, at=at):
            faults = faults.seen_good(device, at)
        case ev.WasReset(device=reset, at=at, witness=kind):
            faults = _reset(faults, reset, kind, at)
        case _:
            assert_never(event)
    return inventory if faults is inventory.faults else replace(inventory, faults=faults)


def _reset(faults: Faults, device: DeviceId | None, witness: str, at: float) -> Faults:
    if witness and device is not None:
        return faults.reset_inferred(device, witness, at)
    return faults.was_reset(device, at)


def _pods(
    inventory: Inventory,
    event: ev.HoldersAnswered | ev.HoldersUnavailable | ev.Allocated | ev.KubeletChanged,
) -> Inventory:
    match event:
        case ev.HoldersAnswered():
            return replace(inventory, holders=inventory.holders.answered(event))
        case ev.HoldersUnavailable(why=why):
            return replace(inventory, holders=inventory.holders.unavailable(why))
        case ev.Allocated():
            return replace(inventory, holders=inventory.holders.allocated(event))
        case ev.KubeletChanged():
            return _kubelet(inventory, event)
        case _:
            assert_never(event)


def _kubelet(inventory: Inventory, event: ev.KubeletChanged) -> Inventory:
    # A kubelet that was away may be another process, whatever it is called when it is back.
    back = event.state == "present" and inventory.kubelet == "absent"
    holders, hold = inventory.holders, inventory.bounds.restart_hold
    if back or event.state == "restarted":
        holders = holders.kubelet_restarted(event.at, hold)
    elif event.state == "present" and not inventory.kubelet:
        same = event.identity != "" and event.identity == inventory.kubelet_identity
        holders = holders.kubelet_met(event.at, hold, same=same)
    return replace(
        inventory,
        kubelet=event.state,
        kubelet_identity=event.identity or inventory.kubelet_identity,
        holders=holders,
    )
