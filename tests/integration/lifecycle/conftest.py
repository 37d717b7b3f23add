"""A kubelet in a short folder, the daemon as a process beside it, and its config file."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc
from deviceplugin.simulation.kubelet import ChangeKind, SimulatedKubelet

ERAS = ("1.36", "1.37")

TIMINGS = {
    "stream-pause": 0.02,
    "backoff-first": 0.02,
    "backoff-limit": 0.05,
    "holders-poll": 0.2,
    "holders-poll-draining": 0.05,
    "withdrawn-hold": 0.3,
    "recovery-hold": 0.5,
    "rescan": 0.2,
    "driver-retry": 0.3,
}
"""Lowered bounds of every daemon here; a test that is about one of them says so."""


BUGS = ("Traceback", "Exception ignored", "Fatal Python error")


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> bool:
    """Poll until the condition holds; False when it still does not after so long."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


class Daemon:
    """``deviceplugin run nvidia`` as a process of its own."""

    def __init__(self, command: Sequence[str], log_file: Path) -> None:
        self.log_file = log_file
        self.begun = time.monotonic()
        known = ("PATH", "HOME", "LANG", "VIRTUAL_ENV")
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={name: os.environ[name] for name in known if name in os.environ},
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    # Its log

    @property
    def log(self) -> str:
        """All it has logged."""
        return self.log_file.read_text(errors="replace")

    def said(self, *words: str) -> int:
        """How many lines of the log have all these words."""
        return sum(all(word in line for word in words) for line in self.log.splitlines())

    def says(self, *words: str, seconds: float = 10.0) -> bool:
        """Wait for a line with all these words."""
        return wait_until(lambda: self.said(*words), seconds)

    # Its pages

    def get(self, page: str) -> tuple[int, str]:
        """Status and text of a page; (0, "") while nobody answers."""
        if not self.says("serving metrics and probes"):
            return 0, ""
        line = next(each for each in self.log.splitlines() if "serving metrics and probes" in each)
        port = line.rpartition("port=")[2]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str) -> float | None:
        """A sample by its name and labels, as /metrics spells them."""
        lines = self.get("metrics")[1].splitlines()
        prefix = f"device_plugin_{name} "
        return next((float(x.removeprefix(prefix)) for x in lines if x.startswith(prefix)), None)

    # What the kernel says of it

    def descriptors(self) -> int:
        """Open files."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208 - only counted

    def threads(self) -> int:
        """Threads, gRPC's own included."""
        return len(os.listdir(f"/proc/{self.pid}/task"))  # noqa: PTH208 - only counted

    # Its end

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self, seconds: float = 10.0) -> int:
        """Wait for its end; returns the exit code.

        Raises:
            subprocess.TimeoutExpired: it has not ended.

        """
        return self._process.wait(seconds)

    def kill(self) -> None:
        """End it with SIGKILL, and wait."""
        self._process.kill()
        self._process.wait()


class ConfigFile:
    """The mounted config, changed in the ways in which a ConfigMap and a person change it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.path = folder / "nvidia.yaml"
        self._folder = folder
        self._versions = itertools.count()

    def write(self, text: str) -> None:
        """Write the file in place."""
        self.path.write_text(text)

    def swap(self, text: str) -> None:
        """Put a new version in place as the kubelet does: one rename of the link ``..data``."""
        version = self._folder / f"..v{next(self._versions)}"
        version.mkdir()
        (version / self.path.name).write_text(text)
        link = self._folder / "..data_tmp"
        link.symlink_to(version.name)
        link.rename(self._folder / "..data")
        if not self.path.is_symlink():
            self.path.unlink(missing_ok=True)
            self.path.symlink_to(f"..data/{self.path.name}")


class Control:
    """The file through which things happen to the simulated hardware."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self.path = path

    def __call__(self, **step: object) -> float:
        """Let a step happen, as ``control(xid=79, gpu=3)``; returns the moment."""
        with self.path.open("a") as file:
            file.write(json.dumps(step) + "\n")
        return time.monotonic()


class Rival(api_pb2_grpc.DevicePluginServicer):
    """Somebody else's plugin, which registers a resource name of ours."""

    def __init__(self, folder: Path, *ids: str) -> None:
        self._ids = ids
        self._left = threading.Event()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        api_pb2_grpc.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{folder / 'rival.sock'}")
        self._server.start()
        request = api_pb2.RegisterRequest(
            version="v1beta1", endpoint="rival.sock", resource_name="nvidia.com/gpu"
        )
        with grpc.insecure_channel(f"unix:{folder / 'kubelet.sock'}") as channel:
            api_pb2_grpc.RegistrationStub(channel).Register(request, timeout=10)

    def GetDevicePluginOptions(  # noqa: N802 - the API's name
        self, request: api_pb2.Empty, context: grpc.ServicerContext
    ) -> api_pb2.DevicePluginOptions:
        """Want nothing."""
        del request, context
        return api_pb2.DevicePluginOptions()

    def ListAndWatch(  # noqa: N802 - the API's name
        self, request: api_pb2.Empty, context: grpc.ServicerContext
    ) -> Iterator[api_pb2.ListAndWatchResponse]:
        """List its ids once, and stay."""
        del request, context
        devices = [api_pb2.Device(ID=id_, health="Healthy") for id_ in self._ids]
        yield api_pb2.ListAndWatchResponse(devices=devices)
        self._left.wait()

    def leave(self) -> None:
        """End the stream and the server."""
        self._left.set()
        self._server.stop(None).wait()


@pytest.fixture
def rival(root: Path) -> Iterator[Callable[..., Rival]]:
    """Register other plugins under our name; those that are left leave at the end."""
    came: list[Rival] = []

    def come(*ids: str) -> Rival:
        came.append(Rival(root / "device-plugins", *ids))
        return came[-1]

    yield come
    for each in came:
        each.leave()


@pytest.fixture(scope="session")
def until() -> Callable[..., bool]:
    """Wait for a condition."""
    return wait_until


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="dp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def kubelet(root: Path, request: pytest.FixtureRequest) -> Iterator[SimulatedKubelet]:
    """A running kubelet: the newer era's, or as a test's parameters want it."""
    settings: Mapping[str, Any] = getattr(request, "param", {})
    with SimulatedKubelet(root, **{"rate_limited": False, **settings}) as kubelet:
        yield kubelet


@pytest.fixture(params=ERAS)
def each_kubelet(root: Path, request: pytest.FixtureRequest) -> Iterator[SimulatedKubelet]:
    """A running kubelet, of each era in turn."""
    with SimulatedKubelet(root, era=request.param, rate_limited=False) as kubelet:
        yield kubelet


@pytest.fixture
def config(root: Path) -> ConfigFile:
    """Where the daemons' config will be; there is none yet."""
    return ConfigFile(root / "config")


@pytest.fixture
def control(root: Path) -> Control:
    """What happens to the daemons' hardware."""
    return Control(root / "control")


@pytest.fixture
def start(root: Path, config: ConfigFile, control: Control) -> Iterator[Callable[..., Daemon]]:
    """Start daemons beside the one kubelet; each is killed at the end, and its log shown."""
    started: list[Daemon] = []

    def start_one(
        *flags: str, machine: str = "h100x8", through: Sequence[str] = (), **timings: float
    ) -> Daemon:
        asked = {name.replace("_", "-"): value for name, value in timings.items()}
        command = [sys.executable, "-m", "deviceplugin", "run", "nvidia", "--simulate", machine]
        command += ["--simulate-control", str(control.path), "--config", str(config.path)]
        command += ["--plugin-dir", str(root / "device-plugins")]
        command += ["--state-dir", str(root / "state"), "--metrics-address", "127.0.0.1:0"]
        for name, value in {**TIMINGS, **asked}.items():
            command += ["--timing", f"{name}={value}"]
        log_file = root / f"daemon{len(started)}.log"
        started.append(Daemon([*through, *command, *flags], log_file))
        return started[-1]

    yield start_one
    for daemon in started:
        daemon.kill()
        sys.stdout.write(f"--- {daemon.log_file.name}\n{daemon.log}")
    assert not [line for daemon in started for line in daemon.log.splitlines() if is_bug(line)]


def is_bug(line: str) -> bool:
    """Whether a log line tells of something that is never right, whatever a test does."""
    told_to_people = "config refused" in line
    return (" ERROR " in line and not told_to_people) or line.startswith(BUGS)


@pytest.fixture
def hears(control: Control) -> Callable[[Daemon], bool]:
    """Wait until a daemon hears what the driver reports: a harmless XID shows it."""

    def heard(daemon: Daemon) -> bool:
        control(xid=13, gpu=0)
        return 'kind="xid-13"' in daemon.get("metrics")[1]

    return lambda daemon: wait_until(lambda: heard(daemon))


@pytest.fixture(scope="session")
def sharing() -> Callable[..., str]:
    """Write a config that shares GPUs: one entry of time slicing for each mapping."""

    def text(*entries: Mapping[str, object], **entry: object) -> str:
        resources = [{"name": "nvidia.com/gpu", **each} for each in (*entries, entry) if each]
        return json.dumps({"version": "v1", "sharing": {"timeSlicing": {"resources": resources}}})

    return text


@pytest.fixture(scope="session")
def serves() -> Callable[..., bool]:
    """Wait until so many units of a resource can be had."""

    def wait(
        kubelet: SimulatedKubelet, count: int, resource: str = "nvidia.com/gpu", seconds: float = 10
    ) -> bool:
        return kubelet.wait(lambda: kubelet.allocatable().get(resource) == count, seconds)

    return wait


@pytest.fixture(scope="session")
def lists() -> Callable[..., list[Any]]:
    """All lists that the kubelet received of a resource, oldest first."""

    def received(kubelet: SimulatedKubelet, resource: str = "nvidia.com/gpu") -> list[Any]:
        return [each for each in kubelet.history if each.resource == resource]

    return received


@pytest.fixture(scope="session")
def registrations() -> Callable[..., list[Any]]:
    """All Registers that the kubelet accepted, oldest first."""

    def accepted(kubelet: SimulatedKubelet) -> list[Any]:
        return [each for each in kubelet.changes if each.kind is ChangeKind.REGISTERED]

    return accepted


@pytest.fixture
def sockets(root: Path) -> Callable[[], list[str]]:
    """Names of the daemons' sockets on disk."""
    return lambda: sorted(path.name for path in root.glob("device-plugins/nvidia-*.sock"))
