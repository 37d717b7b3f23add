"""What the AMD threads know together, and which threads there are."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from deviceplugin.backend import BackendOptions, Source
from deviceplugin.config.amd_options import AmdFlags
from deviceplugin.events import Scan
from deviceplugin.vendors.amd.door import AmdDoor
from deviceplugin.vendors.amd.generation import GenerationSource


@dataclass(slots=True, kw_only=True)
class Health:
    """State shared by the threads, each value written by one of them and replaced whole.

    Attributes:
        flags: which sources are asked. The loop's.
        scan: the last good one. The scan thread's.
        why_away: why the driver as a whole does not answer; "" while it does.

    """

    flags: AmdFlags = field(default_factory=AmdFlags)
    scan: Scan = field(default_factory=Scan)
    why_away: str = ""

    def configure(self, flags: AmdFlags) -> None:
        """Take over the flags of an accepted config."""
        self.flags = flags

    def saw(self, scan: Scan) -> None:
        """Take over what a scan found."""
        self.scan = scan
        self.why_away = ""

    def away(self, why: str) -> None:
        """Note that the driver as a whole does not answer."""
        self.why_away = why


def sources(options: BackendOptions, door: AmdDoor, health: Health) -> Iterable[Source]:
    """Background work of the vendor."""
    del door, health
    return (GenerationSource(root=options.sysfs, seconds=options.poll_seconds),)
