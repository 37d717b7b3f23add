"""The NVIDIA vendor on this node: scans, health threads, delivery."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin.backend import BackendOptions, BackendUnavailableError, Source
from deviceplugin.config.nvidia_options import NvidiaFlags
from deviceplugin.config.rules import Config
from deviceplugin.events import Scan
from deviceplugin.model import BackendState, Delivery, Device, ResourceName
from deviceplugin.vendors.nvidia import discover
from deviceplugin.vendors.nvidia.calls import Calls, Limits, TimedNvml
from deviceplugin.vendors.nvidia.delivery import delivery
from deviceplugin.vendors.nvidia.door import Nvml, NvmlError
from deviceplugin.vendors.nvidia.event_source import EventSource
from deviceplugin.vendors.nvidia.health import Health
from deviceplugin.vendors.nvidia.links import LinkMap
from deviceplugin.vendors.nvidia.poll_source import PollSource
from deviceplugin.vendors.nvidia.reopening import Reopening
from deviceplugin.vendors.nvidia.watchdog import Watchdog

logger = logging.getLogger(__name__)

_AWAY = (BackendState.NO_DRIVER, BackendState.DRIVER_MISMATCH)


@dataclass(slots=True, kw_only=True)
class NvidiaBackend:
    """See ``backend.Backend`` and ``Configurable``. ``discover`` belongs to the scan thread.

    Attributes:
        look_under: tells the door of another driver root; None where it has none, or where
            the command line has named one.

    """

    options: BackendOptions
    door: Nvml
    health: Health
    look_under: Callable[[Path], None] | None = None
    calls: Calls = field(default_factory=Calls)
    limits: Limits = field(default_factory=Limits)
    vendor: str = "nvidia"
    _surroundings: discover.Surroundings = field(init=False)
    _reopening: Reopening = field(init=False)
    _links: LinkMap = field(init=False)
    _pci: dict[str, str] = field(default_factory=dict)
    _was_away: bool = False
    _root: Path | None = None
    _root_changed: bool = False

    def __post_init__(self) -> None:
        self.door = TimedNvml(self.door, self.calls, self.limits)
        self._surroundings = discover.Surroundings(options=self.options)
        self._reopening = Reopening(clock=self.health.clock)
        self._links = LinkMap(bus=self._surroundings.bus)

    def discover(self) -> Scan:
        """Scan; a driver that has come back is opened anew, one that hangs is left alone."""
        hang = self.calls.hanging()
        if hang:
            raise self._fail(BackendUnavailableError(BackendState.DRIVER_HUNG, str(hang)))
        if self.health.ailments.get("poll") or self._reopening.due() or self._root_changed:
            self._root_changed = False
            self.door.close()
        try:
            scan = self._look()
        except NvmlError as error:
            self.door.close()
            raise self._fail(discover.unavailable(error)) from error
        if not scan.devices and not scan.bus and not self._pci:
            # Closed, because NVML shows no GPU that was plugged in after it was opened.
            self.door.close()
            raise self._fail(_no_devices())
        self._succeed(scan)
        return scan

    def configure(self, config: Config) -> None:
        """Look for the library under the config's driver root from the next scan on."""
        flags = config.flags if isinstance(config.flags, NvidiaFlags) else NvidiaFlags()
        root = Path(flags.container_driver_root)
        if self.look_under is not None and root != self._root:
            self.look_under(root)
            self._root_changed, self._root = self._root is not None, root

    def sources(self) -> Iterable[Source]:
        """Events, poll, and a watchdog over both."""
        return (
            Watchdog(calls=self.calls, health=self.health),
            EventSource(door=self.door, health=self.health),
            PollSource(door=self.door, health=self.health),
        )

    def delivery(
        self, config: Config, resource: ResourceName, devices: Sequence[Device]
    ) -> Delivery:
        """How to hand GPUs out under the flags of this config; the same for every name."""
        del resource
        flags = config.flags if isinstance(config.flags, NvidiaFlags) else NvidiaFlags()
        return delivery(flags, devices)

    def _look(self) -> Scan:
        if not self.door.library():
            self._open()
        found = discover.enumerate_gpus(self.door)
        return self._surroundings.scan(found, self._links.between(self.door, found.gpus))

    def _open(self) -> None:
        self.door.open()
        self._links.forget()
        fields = {"library": self.door.library(), "driver": self.door.driver_version()}
        logger.info("NVML opened", extra=fields)
        for part in ("poll", "events"):
            self.health.ail(part, "")  # what it was, it was with the session before

    def _fail(self, error: BackendUnavailableError) -> BackendUnavailableError:
        self.health.ail("scan", str(error))
        self._was_away = self._was_away or error.state in _AWAY
        return error

    def _succeed(self, scan: Scan) -> None:
        if self._was_away:
            self._was_away = False
            self.health.reloads += 1
        self._reopening.scanned(scan)
        self._watch(scan)
        self.health.ail("scan", "")

    def _watch(self, scan: Scan) -> None:
        """Watch the GPUs found now and those that were lost, but none that was taken out."""
        found = {str(device.id): device.pci_address or "" for device in scan.devices}
        kept = {
            uuid: address
            for uuid, address in self._pci.items()
            if scan.bus is None or address in scan.bus
        }
        self._pci = found | {uuid: kept[uuid] for uuid in kept if uuid not in found}
        self.health.watched.set(tuple(self._pci))


def _no_devices() -> BackendUnavailableError:
    return BackendUnavailableError(
        BackendState.NO_DEVICES,
        "the driver is loaded and shows no GPU, nor does the PCI bus; looking again",
    )
