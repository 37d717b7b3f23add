"""The AMD vendor on this node: scans, health, delivery."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from deviceplugin.backend import BackendOptions, BackendUnavailableError, Source
from deviceplugin.config.amd_options import AmdFlags
from deviceplugin.config.rules import Config
from deviceplugin.events import Scan
from deviceplugin.model import Arrangement, Delivery, Device, ResourceName
from deviceplugin.vendors.amd.delivery import delivery
from deviceplugin.vendors.amd.discover import Look
from deviceplugin.vendors.amd.door import AmdDoor
from deviceplugin.vendors.amd.health import Health
from deviceplugin.vendors.amd.monitoring import sources
from deviceplugin.vendors.amd.partitions import arrange

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class AmdBackend:
    """See ``backend.Backend``, ``Configurable`` and ``Partitioning``."""

    options: BackendOptions
    door: AmdDoor
    health: Health
    vendor: str = "amd"
    _look: Look = field(init=False)
    _groups: frozenset[str] = frozenset()
    _hidden: int = 0

    def __post_init__(self) -> None:
        self._look = Look(options=self.options)

    def discover(self) -> Scan:
        """Look at KFD, the PCI bus and drm; an error of one GPU is that GPU's."""
        self.door.began()
        try:
            scan = self._look.scan()
        except BackendUnavailableError as error:
            self.health.away(str(error))
            raise
        self._say_groups(scan.devices)
        self._say_hidden(self._look.hidden)
        self.health.saw(scan, self._look.generation)
        return scan

    def configure(self, config: Config) -> None:
        """Take over which health sources are asked, and how strict they are."""
        self.health.configure(_flags(config))

    def sources(self) -> Iterable[Source]:
        """Polls and listeners for the health of the GPUs."""
        return sources(self.options, self.door, self.health)

    def delivery(
        self, config: Config, resource: ResourceName, devices: Sequence[Device]
    ) -> Delivery:
        """How to hand these GPUs out under the flags of this config."""
        return delivery(_flags(config), resource, devices)

    def arrange(self, config: Config, devices: Sequence[Device]) -> Arrangement:
        """Name each GPU's resource by the partition strategy."""
        return arrange(_flags(config), devices)

    def _say_groups(self, devices: Sequence[Device]) -> None:
        groups = frozenset(device.attributes.get("gid", "") for device in devices) - {""}
        if groups != self._groups:
            self._groups = groups
            logger.info(
                "render nodes belong to a group: containers that do not run as root need it in"
                " supplementalGroups",
                extra={"gid": ",".join(sorted(groups))},
            )

    def _say_hidden(self, hidden: int) -> None:
        if hidden != self._hidden:
            self._hidden = hidden
            logger.info(
                "KFD hides GPUs from this process (device cgroup): whole ones are served, without"
                " links; for partitions see components/amd-partitions",
                extra={"nodes": hidden},
            )


def _flags(config: Config) -> AmdFlags:
    return config.flags if isinstance(config.flags, AmdFlags) else AmdFlags()
