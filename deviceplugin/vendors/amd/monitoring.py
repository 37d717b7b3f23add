"""Which threads watch the health of AMD's GPUs."""

from collections.abc import Iterable

from deviceplugin.backend import BackendOptions, Source
from deviceplugin.vendors.amd.door import AmdDoor
from deviceplugin.vendors.amd.event_source import EventSource
from deviceplugin.vendors.amd.exporter import ExporterSource
from deviceplugin.vendors.amd.generation import GenerationSource
from deviceplugin.vendors.amd.health import Health
from deviceplugin.vendors.amd.poll_source import PollSource
from deviceplugin.vendors.amd.smi import SmiSource


def sources(options: BackendOptions, door: AmdDoor, health: Health) -> Iterable[Source]:
    """Background work of the vendor. What the config does not ask for waits without a file open."""
    return (
        GenerationSource(root=options.sysfs, seconds=options.poll_seconds),
        PollSource(sysfs=options.sysfs, devfs=options.devfs, health=health),
        EventSource(door=door, health=health),
        ExporterSource(sysfs=options.sysfs, health=health),
        SmiSource(sysfs=options.sysfs, health=health),
    )
