"""An HTTP server over loopback and a client that says exactly what it is told to."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from deviceplugin.observe.http import HttpServer
from deviceplugin.observe.status import Status
from deviceplugin.published import Published

Serve = Callable[..., HttpServer]
Ask = Callable[..., bytes]
Until = Callable[[Callable[[], bool]], None]


@pytest.fixture
def status() -> Published[Status]:
    """A daemon's status before its first event."""
    return Published(Status(vendor="nvidia", simulated="h100x8"))


@pytest.fixture
def serve(status: Published[Status]) -> Iterator[Serve]:
    """Start servers that end with the test."""
    servers: list[HttpServer] = []

    def start(alive: Callable[[], str] = lambda: "", address: str = "127.0.0.1:0") -> HttpServer:
        server = HttpServer(address, status, alive)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.stop()


def _read_all(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(65536), b""))


@pytest.fixture
def ask() -> Ask:
    """Send bytes to a server and give the whole answer."""

    def asked(server: HttpServer, request: bytes) -> bytes:
        with closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as client:
            client.sendall(request)
            return _read_all(client)

    return asked


@pytest.fixture
def until() -> Until:
    """Wait for a condition, ten seconds at most."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true in 10 s"
            time.sleep(0.005)

    return wait
