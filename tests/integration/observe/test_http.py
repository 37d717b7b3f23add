"""Probes and metrics over a real socket."""

import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from deviceplugin import events as ev
from deviceplugin.model import BackendState
from deviceplugin.observe import connection
from deviceplugin.observe.http import CLIENTS, WORKERS, HttpServer
from deviceplugin.observe.listener import AddressError, parse_address
from deviceplugin.observe.status import Status, apply
from deviceplugin.published import Published

Serve = Callable[..., HttpServer]
Ask = Callable[[HttpServer, bytes], bytes]
Until = Callable[[Callable[[], bool]], None]


def _get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def _connect(server: HttpServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def _code(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def _body(answer: bytes) -> str:
    return answer.partition(b"\r\n\r\n")[2].decode()


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        pytest.param("/", 200, "nvidia, simulated machine h100x8", id="index"),
        pytest.param("/healthz", 200, "ok", id="alive"),
        pytest.param("/healthz?verbose", 200, "ok", id="query-is-ignored"),
        pytest.param("/readyz", 503, "the first list is not made yet", id="not-ready"),
        pytest.param("/metrics", 200, "device_plugin_build_info{", id="metrics"),
        pytest.param("/status", 404, "/metrics", id="unknown-path"),
    ],
)
def test_each_path_has_its_answer(serve: Serve, ask: Ask, path: str, code: int, said: str) -> None:
    """Every path answers in every state, with a text that a person understands."""
    answer = ask(serve(), _get(path))
    assert (_code(answer), said in _body(answer)) == (code, True)


def test_readiness_follows_the_status(serve: Serve, ask: Ask, status: Published[Status]) -> None:
    """What the loop publishes is what the next probe hears."""
    server = serve()
    assert _code(ask(server, _get("/readyz"))) == 503
    no_driver = ev.BackendChanged(state=BackendState.NO_DRIVER, detail="", at=1.0)
    status.set(apply(status.value, no_driver))
    assert _code(ask(server, _get("/readyz"))) == 200


def test_liveness_tells_what_the_self_check_found(serve: Serve, ask: Ask) -> None:
    """A failed check of our own socket fails the probe with its reason."""
    answer = ask(serve(alive=lambda: "a.sock does not answer"), _get("/healthz"))
    assert (_code(answer), _body(answer)) == (503, "a.sock does not answer\n")


def test_liveness_fails_when_the_loop_stands_still(
    ask: Ask, serve: Serve, status: Published[Status]
) -> None:
    """An old beat is enough: the self-check is not asked any more."""
    status.set(Status(vendor="nvidia", beat=time.monotonic() - 1000))
    answer = ask(serve(alive=lambda: "never asked"), _get("/healthz"))
    assert (_code(answer), "has not turned for 1000 s" in _body(answer)) == (503, True)


def test_an_error_inside_is_an_answer_and_a_log_line(
    serve: Serve, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug in one page costs that page, never the server."""

    def broken() -> str:
        raise LookupError("a bug")

    server = serve(alive=broken)
    assert _code(ask(server, _get("/healthz"))) == 500
    assert "a page failed" in caplog.text
    assert _code(ask(server, _get("/"))) == 200


def test_head_is_a_get_without_a_body(serve: Serve, ask: Ask) -> None:
    """The length is that of the body which a GET would bring."""
    server = serve()
    length = len(_body(ask(server, _get("/"))))
    answer = ask(server, _get("/", "HEAD"))
    assert f"Content-Length: {length}\r\n".encode() in answer
    assert _body(answer) == ""


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        pytest.param(b"POST / HTTP/1.1\r\n\r\n", 405, id="method"),
        pytest.param(b"GET /\r\n\r\n", 400, id="no-version"),
        pytest.param(b"GET / HTTP/2.0\r\n\r\n", 400, id="wrong-version"),
        pytest.param(b"\x16\x03\x01\x02\x00\r\n\r\n", 400, id="tls"),
        pytest.param(b"\r\n\r\n", 400, id="empty-lines"),
        pytest.param(b"GET /a b HTTP/1.1\r\n\r\n", 400, id="space-in-the-path"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"x" * 9000, 431, id="endless-header"),
        pytest.param(b"x" * 100_000, 431, id="no-line-end"),
        pytest.param(b"GET / HTTP/1.1\nHost: x\n\n", 200, id="bare-line-feeds"),
        pytest.param("GET /ü HTTP/1.1\r\n\r\n".encode(), 404, id="bytes-above-ascii"),
        pytest.param(_get("/") + _get("/healthz"), 200, id="two-requests-at-once"),
    ],
)
def test_malformed_requests_get_a_clear_answer(
    serve: Serve, ask: Ask, request_bytes: bytes, code: int
) -> None:
    """Whatever is sent, the client hears what is wrong, and the next one is served."""
    server = serve()
    assert _code(ask(server, request_bytes)) == code
    assert _code(ask(server, _get("/"))) == 200


def test_a_request_may_come_byte_by_byte(serve: Serve) -> None:
    """A request is complete when its empty line is there, however it was cut."""
    with closing(_connect(serve())) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in _get("/healthz"):
            client.sendall(bytes([byte]))
        assert client.recv(65536).startswith(b"HTTP/1.1 200")


def test_silent_clients_delay_nobody(serve: Serve, ask: Ask) -> None:
    """More clients that say nothing than connections there are: the next probe is answered."""
    server = serve()
    with ExitStack() as silent:
        for _ in range(CLIENTS + 5):
            silent.enter_context(closing(_connect(server)))
        begun = time.monotonic()
        assert _code(ask(server, _get("/healthz"))) == 200
        assert time.monotonic() - begun < 1


def test_a_silent_client_is_dropped(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not finish a request in time loses the connection."""
    monkeypatch.setitem(connection.LIMITS, connection.Phase.READING, 0.05)
    with closing(_connect(serve())) as client:
        client.sendall(b"GET / HT")
        assert client.recv(100) == b""


def test_a_client_that_does_not_read_delays_nobody(serve: Serve, ask: Ask) -> None:
    """An answer too big for the socket's buffer waits for its reader alone."""
    text = "x" * 20_000_000
    said = [text, ""]
    server = serve(alive=lambda: said.pop(0))
    with closing(_connect(server)) as client:
        client.sendall(_get("/healthz"))
        client.recv(1)
        assert _code(ask(server, _get("/healthz"))) == 200
        received = 1 + len(b"".join(iter(lambda: client.recv(1 << 20), b"")))
    assert received > len(text)


def test_too_many_slow_answers_are_refused_at_once(serve: Serve, ask: Ask, until: Until) -> None:
    """Threads are bounded: while all are busy a probe hears so instead of waiting."""
    go, asked = threading.Event(), threading.Semaphore(0)

    def slow() -> str:
        asked.release()
        go.wait(10)
        return ""

    server = serve(alive=slow)
    with ExitStack() as clients:
        waiting = [clients.enter_context(closing(_connect(server))) for _ in range(WORKERS)]
        for client in waiting:
            client.sendall(_get("/healthz"))
            assert asked.acquire(timeout=10)
        busy = ask(server, _get("/healthz"))
        assert (_code(busy), "busy" in _body(busy)) == (503, True)
        go.set()
        assert all(client.recv(65536).startswith(b"HTTP/1.1 200") for client in waiting)
    until(lambda: _code(ask(server, _get("/"))) == 200)


def test_threads_and_connections_do_not_pile_up(serve: Serve, ask: Ask, until: Until) -> None:
    """After many requests there are as many threads as before."""
    server = serve()
    before = threading.active_count()
    for _ in range(200):
        ask(server, _get("/healthz"))
    until(lambda: threading.active_count() <= before)
    until(lambda: not server._connections)


def test_a_taken_port_is_said_once_and_tried_again(
    serve: Serve, ask: Ask, until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """Another process on the port is no reason to end; when it goes we are there."""
    with closing(socket.create_server(("127.0.0.1", 0))) as rival:
        server = serve(address=f"127.0.0.1:{rival.getsockname()[1]}")
        assert server.port == 0
        again = server._listener.again
        until(lambda: server._listener.again > again)
    until(lambda: server.port != 0)
    assert _code(ask(server, _get("/"))) == 200
    warnings = [line for line in caplog.records if line.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "--metrics-address" in warnings[0].getMessage()


def test_stop_frees_the_port(serve: Serve) -> None:
    """The next process can listen right after, whatever clients were connected."""
    server = serve()
    port = server.port
    with closing(_connect(server)):
        server.stop()
        socket.create_server(("127.0.0.1", port)).close()
    assert server.port == 0


def test_no_address_means_no_server(serve: Serve) -> None:
    """An empty address switches probes and metrics off."""
    server = serve(address="")
    server.warm()
    assert server.port == 0


def test_warm_loads_the_library_ahead(serve: Serve, until: Until) -> None:
    """The thread that loads the metrics library ends by itself."""
    serve().warm()
    until(lambda: all(thread.name != "http-warm" for thread in threading.enumerate()))


@pytest.mark.parametrize(
    ("address", "parsed"),
    [
        pytest.param("127.0.0.1:9481", ("127.0.0.1", 9481), id="ipv4"),
        pytest.param("[::1]:9481", ("::1", 9481), id="ipv6"),
        pytest.param(":9481", ("", 9481), id="all-interfaces"),
        pytest.param("localhost:0", ("localhost", 0), id="name"),
    ],
)
def test_addresses(address: str, parsed: tuple[str, int]) -> None:
    """Host and port are told apart."""
    assert parse_address(address) == parsed


@pytest.mark.parametrize("address", ["9481", "localhost", "a:b", "a:", "a:70000", "a:-1", "a:²"])
def test_wrong_addresses(address: str) -> None:
    """The error says what to write."""
    with pytest.raises(AddressError, match=r"write HOST:PORT, as 127\.0\.0\.1:9481"):
        parse_address(address)
