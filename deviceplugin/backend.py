"""What a vendor must and may provide, and how its module is found.

A vendor is a module ``deviceplugin.vendors.<name>`` with a function ``create(options)
-> Backend``. Constructing does no I/O; everything slow happens in ``discover`` (on the
scan thread) and in the sources (a thread each).
"""

import importlib
import pkgutil
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from deviceplugin.config.rules import Config
from deviceplugin.errors import DevicePluginError, WrongUseError
from deviceplugin.events import Emit, Scan
from deviceplugin.model import Arrangement, BackendState, Delivery, Device, ResourceName


class BackendUnavailableError(DevicePluginError):
    """Discovery cannot answer now; a state with a name, retried with backoff."""

    def __init__(self, state: BackendState, detail: str) -> None:
        super().__init__(f"{state.value}: {detail}")
        self.state = state
        self.detail = detail


class UnknownVendorError(WrongUseError):
    """No module of that name."""


@runtime_checkable
class Source(Protocol):
    """Background work of a vendor: events, polls.

    ``run`` opens, uses and closes everything inside, and returns soon after ``stop``
    is set. A raise becomes ``SourceFailed`` and a backoff; see ``sources.py``.
    """

    @property
    def name(self) -> str:
        """The thread's name, and the metric's label."""

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Work until ``stop`` is set."""


@runtime_checkable
class Backend(Protocol):
    """One vendor on this node."""

    @property
    def vendor(self) -> str:
        """``nvidia``."""

    def discover(self) -> Scan:
        """Look at the hardware. Errors of one device stay that device's.

        Raises:
            BackendUnavailableError: the driver as a whole cannot answer.

        """

    def sources(self) -> Iterable[Source]:
        """Background work, each on a thread of its own."""

    def delivery(
        self, config: Config, resource: ResourceName, devices: Sequence[Device]
    ) -> Delivery:
        """How to hand these devices, listed as ``resource``, to containers. Pure.

        What a variable is called may depend on the resource: of two resources in one
        container that set the same one, the kubelet keeps the first value.
        """


@runtime_checkable
class Configurable(Protocol):
    """Optional ability: the way to the driver stands in the config (containerDriverRoot)."""

    def configure(self, config: Config) -> None:
        """Take over an accepted config; what it changes counts from the next scan on.

        Called by the loop, first before the sources start; must not wait for anything.
        """


@runtime_checkable
class Partitioning(Protocol):
    """Optional ability: which resource a device counts under stands in the config."""

    def arrange(self, config: Config, devices: Sequence[Device]) -> Arrangement:
        """Name the resource of each of all known devices, missing ones included. Pure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOptions:
    """Where a vendor looks. Roots are arguments so that tests and simulation can move them.

    Attributes:
        driver: a simulated driver to stand behind the vendor's door; None for the real one.
        host_node: simulation: every device node is handed out with this host path, so that
            containers start (discovery puts it into ``Device.attributes["host_node"]``);
            "" for the real paths.
        library: ``--nvml-library``.
        driver_root: ``--driver-root``, a path in our own file system.
        poll_seconds: how often health is polled.
        rescan_seconds: how often the hardware is looked at again (hot-plug), and the
            retry of a driver that is not there.

    """

    sysfs: Path = Path("/sys")
    devfs: Path = Path("/dev")
    procfs: Path = Path("/proc")
    cdi_dirs: tuple[Path, ...] = (Path("/etc/cdi"), Path("/var/run/cdi"))
    driver_root: Path | None = None
    library: Path | None = None
    driver: object = None
    host_node: str = ""
    poll_seconds: float = 1.0
    rescan_seconds: float = 5.0


class VendorModule(Protocol):
    """What ``vendors/<name>`` offers."""

    def create(self, options: BackendOptions) -> Backend:
        """Make the backend; no I/O."""


def load(vendor: str) -> VendorModule:
    """Import a vendor's module by name.

    Raises:
        UnknownVendorError: there is none; the message lists those there are.

    """
    require(vendor)
    return cast("VendorModule", importlib.import_module(f"deviceplugin.vendors.{vendor}"))


def require(vendor: str) -> None:
    """Do nothing when there is such a vendor; imports none.

    Raises:
        UnknownVendorError: there is none; the message lists those there are.

    """
    if vendor not in known():
        raise UnknownVendorError(f"unknown vendor {vendor!r}: write one of {', '.join(known())}")


def known() -> tuple[str, ...]:
    """Names of the vendors that this installation has."""
    vendors = importlib.import_module("deviceplugin.vendors")
    return tuple(sorted(entry.name for entry in pkgutil.iter_modules(vendors.__path__)))
