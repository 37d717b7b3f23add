"""The smallest vendor there can be: its cards are files in a folder of /dev.

A card ``dev/sample/3`` that holds the word ``bad`` is broken. Copy this file to
``deviceplugin/vendors/<name>.py`` to start a vendor of your own.
"""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deviceplugin.backend import Backend, BackendOptions, BackendUnavailableError, Source
from deviceplugin.config.rules import Config
from deviceplugin.events import Emit, Scan, SeenGood, Symptom
from deviceplugin.model import (
    Action,
    BackendState,
    ContainerEdits,
    Delivery,
    Device,
    DeviceId,
    DeviceNode,
    ResourceName,
)

RESOURCE = ResourceName("sample.com/card")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDelivery:
    """Every container gets the nodes of its cards, and their names in a variable."""

    unmet: str = ""

    def edits(self, devices: Sequence[Device]) -> ContainerEdits:
        """Edits for these cards."""
        return ContainerEdits(
            env={"SAMPLE_CARDS": ",".join(device.id for device in devices)},
            device_nodes=tuple(
                DeviceNode(container_path=node, host_path=node)
                for device in devices
                for node in device.nodes
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePoll:
    """Reads every card again and again."""

    folder: Path
    seconds: float
    name: str = "sample-poll"

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Poll until ``stop`` is set."""
        while not stop.wait(self.seconds):
            for path in _cards(self.folder):
                emit(_judge(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBackend:
    """See ``backend.Backend``."""

    options: BackendOptions
    vendor: str = "sample"

    def discover(self) -> Scan:
        """List the cards. Raises BackendUnavailableError without a folder of them."""
        folder = self.options.devfs / "sample"
        if not folder.is_dir():
            raise BackendUnavailableError(BackendState.NO_DRIVER, f"no folder {folder}")
        return Scan(devices=tuple(map(_device, _cards(folder))))

    def sources(self) -> Iterable[Source]:
        """Return the poll."""
        yield SamplePoll(folder=self.options.devfs / "sample", seconds=self.options.poll_seconds)

    def delivery(
        self, config: Config, resource: ResourceName, devices: Sequence[Device]
    ) -> Delivery:
        """Hand cards out; nothing in the config or on the node changes how."""
        del config, resource, devices
        return SampleDelivery()


def create(options: BackendOptions) -> Backend:
    """Make the backend."""
    return SampleBackend(options=options)


def _cards(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("*"), key=lambda path: int(path.name))


def _device(path: Path) -> Device:
    return Device(
        id=DeviceId(f"card-{path.name}"),
        resource=RESOURCE,
        index=int(path.name),
        nodes=(f"/dev/sample/{path.name}",),
    )


def _judge(path: Path) -> Symptom | SeenGood:
    device, now = DeviceId(f"card-{path.name}"), time.monotonic()
    if path.read_text() == "bad":
        text = "the card says so"
        return Symptom(device=device, kind="bad", detail=text, action=Action.RECOVER, at=now)
    return SeenGood(device=device, at=now)
