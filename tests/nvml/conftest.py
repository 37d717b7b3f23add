"""The library of fakenvml.c, built once, and what steers it."""

import os
import shutil
import struct
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from deviceplugin import sources
from deviceplugin.backend import BackendOptions
from deviceplugin.events import BackendChanged, Event, Symptom
from deviceplugin.model import BackendState
from deviceplugin.vendors.nvidia.calls import Limits
from deviceplugin.vendors.nvidia.health import Health, Timing
from deviceplugin.vendors.nvidia.nvidia_backend import NvidiaBackend
from deviceplugin.vendors.nvidia.nvml import RealNvml

SOURCE = Path(__file__).with_name("fakenvml.c")
RECORD = struct.Struct("112sQQ")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One line of the state file."""

    index: int
    uuid: str
    minor: int
    bus: str
    memory: int = 81559
    mig: int = -1
    recovery: int = 0
    status: str = "ok"
    name: str = "NVIDIA H100 80GB HBM3"

    def __str__(self) -> str:
        place = f"{self.index} {self.uuid} {self.minor} {self.bus}"
        return f"gpu {place} {self.memory} {self.mig} {self.recovery} {self.status} {self.name}"


def _gpus(count: int) -> list[Gpu]:
    return [
        Gpu(index=n, uuid=f"GPU-{n:08d}", minor=15 - n, bus=f"00000000:{16 + n:02X}:00.0")
        for n in range(count)
    ]


@dataclass(kw_only=True)
class FakeDriver:
    """The kernel's side: writes the state file, sends events, reads the counters."""

    folder: Path
    library: Path
    fifo: int
    driver: str = "580.95.05"
    gpus: list[Gpu] = field(default_factory=lambda: _gpus(16))
    rules: list[str] = field(default_factory=list)

    def write(self) -> None:
        """Put the state into force."""
        lines = [f"driver {self.driver}", *map(str, self.gpus), *self.rules]
        fresh = self.folder / "state.new"
        fresh.write_text("\n".join(lines) + "\n")
        fresh.rename(self.folder / "state")

    def set(self, *rules: str, driver: str | None = None) -> None:
        """Replace the rules, and the kernel's driver."""
        self.rules = list(rules)
        self.driver = driver or self.driver
        self.write()

    def change(self, index: int, **changes: object) -> None:
        """Change one GPU."""
        self.gpus[index] = replace(self.gpus[index], **changes)
        self.write()

    def event(self, uuid: str, kind: int, data: int = 0) -> None:
        """Have the driver report something."""
        os.write(self.fifo, f"{uuid} {kind:x} {data}\n".encode())

    def records(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, thread and number of calls."""
        data = self.folder / "counters"
        for name, thread, calls in RECORD.iter_unpack(data.read_bytes() if data.exists() else b""):
            if calls:
                yield name.rstrip(b"\0").decode(), thread, calls

    def calls(self, name: str) -> int:
        """Calls of one function by all threads."""
        return self.counters()[name]

    def counters(self) -> Counter[str]:
        """Calls by function."""
        total: Counter[str] = Counter()
        for name, _, calls in self.records():
            total[name] += calls
        return total

    def threads(self) -> frozenset[int]:
        """Threads that have called anything."""
        return frozenset(thread for _, thread, _ in self.records())

    @staticmethod
    def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Wait for a condition."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            time.sleep(0.005)


Compile = Callable[[str], Path]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Build the library for a driver version; once for each."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler: install gcc to test the binding against a library")
    folder = tmp_path_factory.mktemp("fakenvml")

    def build(version: str) -> Path:
        built = folder / f"libnvidia-ml.so.{version}"
        if not built.exists():
            flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
            define = f'-DFAKE_DRIVER="{version}"'
            command = [compiler, *flags, define, "-o", str(built), str(SOURCE), "-lpthread"]
            subprocess.run(command, check=True)
        return built

    return build


@pytest.fixture
def fake(
    compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FakeDriver]:
    """Sixteen healthy GPUs, and a library file of this test's own: its memory starts empty."""
    library = tmp_path / "libnvidia-ml.so.580.95.05"
    shutil.copy(compiled("580.95.05"), library)
    monkeypatch.setenv("FAKENVML_DIR", str(tmp_path))
    os.mkfifo(tmp_path / "events")
    # Open for reading too: what is written stays until a waiter takes it.
    fifo = os.open(tmp_path / "events", os.O_RDWR | os.O_NONBLOCK)
    driver = FakeDriver(folder=tmp_path, library=library, fifo=fifo)
    driver.write()
    yield driver
    driver.set()  # lets calls go on that a test has made slow
    os.close(fifo)


@pytest.fixture
def nvml(fake: FakeDriver) -> Iterator[RealNvml]:
    """The real door over the library, not yet open."""
    door = RealNvml(library=fake.library)
    yield door
    fake.set()
    door.close()


@dataclass(kw_only=True)
class Rig:
    """The vendor over the library, its threads started on demand, and what they emitted."""

    backend: NvidiaBackend
    events: list[Event] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        """Start every source of the vendor."""
        self.threads = [
            sources.start(each, self.events.append, self.stop) for each in self.backend.sources()
        ]

    def of(self, kind: type[Event]) -> list[Event]:
        """Events of one type so far."""
        return [event for event in tuple(self.events) if isinstance(event, kind)]

    def states(self) -> list[BackendState]:
        """States that the watchdog said, in order."""
        return [event.state for event in self.of(BackendChanged)]

    def symptoms(self) -> set[tuple[str, str]]:
        """Device and kind of each symptom so far."""
        return {(event.device, event.kind) for event in self.of(Symptom)}

    def close(self) -> tuple[str, ...]:
        """Stop; names of the threads that did not end."""
        self.stop.set()
        return sources.join(self.threads, 5.0)


@pytest.fixture
def timing() -> Timing:
    """Paces a tenth of the real ones."""
    return Timing(poll=0.1, wait=0.1, first_retry=0.1, last_retry=0.4, retry_gpu=0.2, watch=0.02)


@pytest.fixture
def rig(fake: FakeDriver, nvml: RealNvml, tmp_path: Path, timing: Timing) -> Iterator[Rig]:
    """A node without sysfs and /dev: what NVML alone tells."""
    options = BackendOptions(
        sysfs=tmp_path / "sys", devfs=tmp_path / "dev", cdi_dirs=(tmp_path / "cdi",)
    )
    backend = NvidiaBackend(
        options=options, door=nvml, health=Health(timing=timing), limits=Limits(call=0.3, attach=1)
    )
    rig = Rig(backend=backend)
    yield rig
    fake.set()
    assert rig.close() == ()
