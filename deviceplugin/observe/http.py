"""Probes and metrics over HTTP; standard library only, for it starts before all else.

One thread reads and writes for all clients without ever waiting for one; answers are
made on a few short-lived threads, because a self-check waits for an RPC. So a slow,
silent or malformed client costs nobody else anything.
"""

import contextlib
import logging
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus

from deviceplugin.observe.connection import Answer, Connection, Phase, Request, plain
from deviceplugin.observe.listener import Listener, parse_address
from deviceplugin.observe.pages import Pages
from deviceplugin.observe.status import Status
from deviceplugin.published import Published

logger = logging.getLogger(__name__)

CLIENTS = 64
"""Connections at once; the one nearest to its deadline makes room for another."""

WORKERS = 8
"""Answers being made at once; above it the answer is 503 right away."""

_PAUSE = 0.1
"""Seconds after an error of the loop itself (out of descriptors), so that it cannot spin."""


class HttpServer:
    """Serves ``/healthz``, ``/readyz``, ``/metrics`` and an index; nothing runs before ``start``.

    An address in use is a log line and another try each second, never an end.
    """

    def __init__(self, address: str, status: Published[Status], alive: Callable[[], str]) -> None:
        """Take ``HOST:PORT`` (port 0: any free one; "" switches all of it off).

        Raises:
            AddressError: the address cannot be understood.

        """
        host, port = parse_address(address) if address else ("", 0)
        self._enabled = bool(address)
        self._listener = Listener(host=host, port=port)
        self._pages = Pages(status=status, alive=alive)
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._waker = socket.socketpair()
        self._answers: queue.SimpleQueue[tuple[Connection, Answer]] = queue.SimpleQueue()
        self._free = threading.BoundedSemaphore(WORKERS)
        self._connections: set[Connection] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port listened on; 0 while there is none."""
        return self._listener.bound

    def start(self) -> None:
        """Listen (or begin to try) and serve on a thread of its own."""
        if not self._enabled:
            return
        for end in (self._wakeup, self._waker):
            end.settimeout(0.0)
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        self._listen()
        self._thread.start()

    def warm(self) -> None:
        """Load the metrics library now, on a thread of its own, so that no scrape waits for it."""
        if self._enabled:
            threading.Thread(target=self._pages.metrics, name="http-warm", daemon=True).start()

    def stop(self, seconds: float = 2.0) -> None:
        """Close all sockets; answers still being made are abandoned."""
        self._stop.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join(seconds)
        else:
            self._close_all()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._turn()
            except Exception:
                # The edge of the thread: whatever it was, probes must go on being answered.
                logger.exception("serving metrics and probes failed, going on")
                self._stop.wait(_PAUSE)
        self._close_all()

    def _turn(self) -> None:
        self._listen()
        for key, _ in self._selector.select(self._patience()):
            if key.data is not None:
                self._advance(key.data)
            elif key.fileobj is self._wakeup:
                self._clear_wakeups()
            else:
                self._accept()
        self._send_answers()
        self._expire()

    def _listen(self) -> None:
        listener = self._listener.open(time.monotonic())
        if listener is not None:
            self._selector.register(listener, selectors.EVENT_READ)

    def _accept(self) -> None:
        client = self._listener.accept()
        if client is None:
            return
        if len(self._connections) >= CLIENTS:
            self._drop(min(self._connections, key=lambda waiting: waiting.deadline))
        connection = Connection(peer=client, deadline=0.0)
        connection.enter(Phase.READING, time.monotonic())
        self._connections.add(connection)
        self._watch(connection)

    def _advance(self, connection: Connection) -> None:
        now = time.monotonic()
        if connection.phase is Phase.READING:
            request = connection.read(now)
            if request is not None:
                self._hand_out(connection, request, now)
        elif connection.phase is Phase.WRITING:
            connection.write(now)
        elif connection.phase is Phase.DRAINING:
            connection.drain()
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        """Wait for what the connection's phase needs next."""
        if connection.phase is Phase.CLOSED:
            self._drop(connection)
            return
        with contextlib.suppress(KeyError):
            self._selector.unregister(connection.peer)
        if connection.phase is not Phase.ANSWERING:
            writing = connection.phase is Phase.WRITING
            events = selectors.EVENT_WRITE if writing else selectors.EVENT_READ
            self._selector.register(connection.peer, events, connection)

    def _drop(self, connection: Connection) -> None:
        self._connections.discard(connection)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.peer)
        connection.close()

    def _expire(self) -> None:
        now = time.monotonic()
        for connection in [late for late in self._connections if late.deadline <= now]:
            self._drop(connection)

    def _patience(self) -> float | None:
        deadlines = [connection.deadline for connection in self._connections]
        if self._listener.listening is None:
            deadlines.append(self._listener.again)
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _hand_out(self, connection: Connection, request: Request, now: float) -> None:
        if not self._free.acquire(blocking=False):
            busy = plain("busy: too many requests at once", HTTPStatus.SERVICE_UNAVAILABLE)
            connection.answer(busy, now)
            return
        threading.Thread(
            target=self._answer, args=(connection, request), name="http-answer", daemon=True
        ).start()

    def _answer(self, connection: Connection, request: Request) -> None:
        try:
            self._answers.put((connection, self._pages.answer(request.path)))
        finally:
            self._free.release()
        self._wake()

    def _send_answers(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                connection, answer = self._answers.get_nowait()
                if connection in self._connections:
                    connection.answer(answer, time.monotonic())
                    self._watch(connection)

    def _wake(self) -> None:
        # A full pipe wakes just as well, and a closed one has nobody left to wake.
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def _clear_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wakeup.recv(4096):
                pass

    def _close_all(self) -> None:
        for connection in list(self._connections):
            self._drop(connection)
        self._listener.close()
        for end in (self._wakeup, self._waker, self._selector):
            end.close()
