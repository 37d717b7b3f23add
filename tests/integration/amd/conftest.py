"""Sources of AMD's vendor on threads of their own, over a simulated machine."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import sources
from deviceplugin.backend import BackendOptions, Source
from deviceplugin.config.amd_options import AmdFlags
from deviceplugin.events import Event
from deviceplugin.simulation import driver
from deviceplugin.vendors.amd.discover import Look
from deviceplugin.vendors.amd.health import Health, Timing

FAST = Timing(
    poll=0.05,
    counters=0.05,
    exporter=0.05,
    exporter_deadline=0.3,
    library=0.2,
    library_deadline=3.0,
    retry=0.2,
    wait=0.02,
)


@dataclass(kw_only=True)
class Amd:
    """A machine, its health, and what its sources say."""

    options: BackendOptions
    control: Path
    health: Health = field(default_factory=lambda: Health(timing=FAST))
    events: list[Event] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    @property
    def door(self) -> Any:
        """The simulated driver."""
        return self.options.driver

    def scan(self) -> None:
        """Scan once."""
        self.door.began()
        look = Look(options=self.options)
        self.health.saw(look.scan(), look.generation)

    def start(self, source: Source, **flags: Any) -> None:
        """Run a source under these flags."""
        self.health.configure(AmdFlags(**{"exporter_socket": "", **flags}))
        self.threads.append(sources.start(source, self.events.append, self.stop))

    def happen(self, step: str) -> None:
        """Let something happen to the machine."""
        with self.control.open("a") as file:
            file.write(step + "\n")

    def seen(self, cls: type[Any], /, **known: object) -> bool:
        """Whether such an event was said."""
        return any(
            isinstance(event, cls) and all(getattr(event, k) == v for k, v in known.items())
            for event in list(self.events)
        )

    def sees(self, cls: type[Any], /, **known: object) -> bool:
        """Wait for such an event."""
        return until(lambda: self.seen(cls, **known))


def until(true: Callable[[], object], seconds: float = 10.0) -> bool:
    """Wait for something to be true."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        with contextlib.suppress(InterruptedError):
            threading.Event().wait(0.01)
    return bool(true())


@pytest.fixture(name="until")
def _until() -> Callable[..., bool]:
    """Wait for something to be true."""
    return until


@pytest.fixture
def amd(tmp_path: Path) -> Iterator[Amd]:
    """Two GPUs in eight partitions each."""
    machine = tmp_path / "parts.yaml"
    machine.write_text(
        "amd: {gpus: {count: 2, partition: CPX/NPS4, hives: [0, 0],"
        ' pci: ["0000:05:00.0", "0000:26:00.0"]}}'
    )
    control = tmp_path / "control"
    control.touch()
    options = driver.prepare(str(machine), tmp_path / "m", vendor="amd", control=control)
    made = Amd(options=options, control=control)
    made.scan()
    yield made
    made.stop.set()
    assert sources.join(made.threads, 5.0) == ()
