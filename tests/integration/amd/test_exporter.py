"""AMD's metrics exporter as it is, was, and may be when something is wrong with it."""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from deviceplugin.api.amdexporter.v1 import api_pb2
from deviceplugin.events import Symptom
from deviceplugin.vendors.amd.exporter import METHODS, ExporterSource

FIRST = "0000:05:00.0"
KIND = "exporter-unhealthy"


class Exporter(grpc.GenericRpcHandler):
    """An exporter under one of its names."""

    def __init__(self, path: Path, method: str = METHODS[0]) -> None:
        self.states: dict[str, str] = {}
        self.raw: bytes | None = None
        self.hang = threading.Event()
        self.hang.set()
        self.asked = 0
        self._method = method
        self._server = grpc.server(ThreadPoolExecutor(4), handlers=(self,))
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def service(self, details: Any) -> Any:
        """Know one method."""
        if details.method != self._method:
            return None
        return grpc.unary_unary_rpc_method_handler(self._list)

    def _list(self, _request: bytes, _context: Any) -> bytes:
        self.asked += 1
        self.hang.wait(5)
        if self.raw is not None:
            return self.raw
        states = [
            api_pb2.GPUState(device=device, health=health) for device, health in self.states.items()
        ]
        return api_pb2.GPUStateResponse(gpu_state=states).SerializeToString()

    def close(self) -> None:
        """End."""
        self.hang.set()
        self._server.stop(0).wait()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the exporter's socket is."""
    return tmp_path / "exporter.sock"


@pytest.fixture
def exporter(path: Path) -> Iterator[Exporter]:
    """A running exporter."""
    made = Exporter(path)
    yield made
    made.close()


@pytest.fixture
def start(amd: Any, path: Path) -> Callable[[], None]:
    """Start to ask."""
    source = ExporterSource(sysfs=amd.options.sysfs, health=amd.health)
    return lambda: amd.start(source, exporter_socket=str(path))


@pytest.mark.parametrize("method", METHODS)
def test_both_names(
    amd: Any, path: Path, start: Callable[[], None], method: str, until: Callable[..., bool]
) -> None:
    """Whichever name the service has, its verdict is heard, and its acquittal."""
    exporter = Exporter(path, method)
    try:
        exporter.states = {FIRST: "Unhealthy", "0000:26:00.0": "healthy"}
        start()
        assert amd.sees(Symptom, device=FIRST, kind=KIND)
        assert amd.health.is_condemned(FIRST)
        exporter.states = {FIRST: "healthy"}
        assert until(lambda: not amd.health.is_condemned(FIRST))
        assert {e.device for e in amd.events if isinstance(e, Symptom)} == {FIRST}
    finally:
        exporter.close()


def test_unknown_changes_nothing(
    amd: Any, exporter: Exporter, start: Callable[[], None], until: Callable[..., bool]
) -> None:
    """Neither "unknown" nor silence makes a GPU ill, nor takes a verdict back."""
    exporter.states = {FIRST: "unhealthy", "0000:26:00.0": "unknown", "0000:99:00.0": "unhealthy"}
    start()
    assert amd.sees(Symptom, device=FIRST, kind=KIND)
    exporter.states = {FIRST: "unknown"}
    asked = exporter.asked
    assert until(lambda: exporter.asked > asked + 2)
    exporter.states = {}
    asked = exporter.asked
    assert until(lambda: exporter.asked > asked + 2)
    assert amd.health.is_condemned(FIRST)
    assert {e.device for e in amd.events if isinstance(e, Symptom)} == {FIRST}


def test_a_partition_by_its_platform_device(
    amd: Any, exporter: Exporter, start: Callable[[], None]
) -> None:
    """The exporter's name for a partition means that partition, not its GPU."""
    exporter.states = {"amdgpu_xcp_2": "unhealthy"}
    start()
    assert amd.sees(Symptom, device=f"{FIRST}-p3", kind=KIND)
    assert not amd.health.is_condemned(FIRST)


def test_gone_keeps_the_verdict(
    amd: Any,
    exporter: Exporter,
    path: Path,
    start: Callable[[], None],
    until: Callable[..., bool],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An exporter that died acquits nobody: the verdict stands, and says how old it is."""
    exporter.states = {FIRST: "unhealthy"}
    start()
    assert amd.sees(Symptom, device=FIRST, kind=KIND)
    with caplog.at_level(logging.WARNING):
        exporter.close()
        path.unlink(missing_ok=True)
        assert until(lambda: any("ago; it does not answer" in str(e) for e in list(amd.events)))
    assert amd.health.is_condemned(FIRST)
    warnings = [r for r in caplog.records if "exporter does not answer" in r.message]
    assert len(warnings) == 1
    again = Exporter(path)
    again.states = {FIRST: "healthy"}
    try:
        assert until(lambda: not amd.health.is_condemned(FIRST))
    finally:
        again.close()


def test_not_installed_is_silence(
    amd: Any,
    start: Callable[[], None],
    until: Callable[..., bool],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without a socket nothing is said, and no verdict is made up."""
    with caplog.at_level(logging.INFO):
        start()
        assert not until(lambda: amd.events or amd.health.condemned.get("exporter"), 0.3)
    assert not [record for record in caplog.records if "xporter" in record.message]


def _plain(path: Path) -> None:
    path.write_text("not a socket")


def _folder(path: Path) -> None:
    path.mkdir()


def _deaf(path: Path) -> None:
    # Accepts connections and never says a word.
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    _KEPT.append(listener)


def _babbling(path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    _KEPT.append(listener)

    def babble() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.sendall(os.urandom(4096))

    threading.Thread(target=babble, daemon=True).start()


_KEPT: list[socket.socket] = []


@pytest.fixture
def kept() -> Iterator[None]:
    """Close listeners afterwards."""
    yield
    for each in _KEPT:
        each.close()
    _KEPT.clear()


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("make", [_plain, _folder, _deaf, _babbling])
def test_what_is_no_exporter(
    amd: Any,
    path: Path,
    start: Callable[[], None],
    until: Callable[..., bool],
    make: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A file, a folder, a socket that hangs or talks garbage: one warning, and no verdict."""
    make(path)
    with caplog.at_level(logging.INFO):
        start()
        assert until(lambda: any("does not answer" in r.message for r in caplog.records))
        assert not until(lambda: amd.events, 0.3)
    assert amd.threads[0].is_alive()
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1


@pytest.mark.parametrize("answer", [b"\xff" * 100, b"\x0a\x03abc", os.urandom(2000)])
def test_garbage_in_an_answer(
    amd: Any,
    exporter: Exporter,
    start: Callable[[], None],
    until: Callable[..., bool],
    answer: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An answer that is none is told once, without a traceback, and judges nobody."""
    exporter.raw = answer
    with caplog.at_level(logging.INFO):
        start()
        assert until(lambda: exporter.asked > 2)
    assert not amd.events
    assert not [record for record in caplog.records if record.exc_info]


def test_an_answer_that_hangs(
    amd: Any, exporter: Exporter, start: Callable[[], None], until: Callable[..., bool]
) -> None:
    """A call is given up after its time, and the next one may be answered."""
    exporter.hang.clear()
    exporter.states = {FIRST: "unhealthy"}
    start()
    assert until(lambda: exporter.asked > 1)
    assert not amd.events
    exporter.hang.set()
    assert amd.sees(Symptom, device=FIRST, kind=KIND)


def test_switched_off(
    amd: Any, exporter: Exporter, start: Callable[[], None], until: Callable[..., bool]
) -> None:
    """Without a socket in the config nobody is asked, and what was said is nobody's opinion."""
    exporter.states = {FIRST: "unhealthy"}
    start()
    assert amd.sees(Symptom, device=FIRST, kind=KIND)
    amd.health.configure(amd.health.flags.__class__(exporter_socket=""))
    assert until(lambda: not amd.health.is_condemned(FIRST))
