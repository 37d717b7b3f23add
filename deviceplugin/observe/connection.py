"""One HTTP/1 request and its answer over a non-blocking socket; standard library only.

``http.server`` costs 8 MB of resident memory at import and a thread for each slow
client; a probe needs a request line and nothing else.
"""

import contextlib
import enum
import re
import socket
from dataclasses import dataclass, field
from http import HTTPStatus

REQUEST_BYTES = 8192
"""A request line and the headers; what is longer comes from no probe and no scraper."""

_END = re.compile(rb"\r?\n\r?\n")
_REQUEST_LINE = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]\r?\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a page says; ``body`` is complete, ``kind`` its content type."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes
    kind: str = "text/plain; charset=utf-8"


def plain(text: str, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """Answer with one piece of text for people."""
    return Answer(status=status, body=f"{text}\n".encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A complete request; ``path`` is without its query."""

    method: str
    path: str


class Phase(enum.Enum):
    """Where a connection stands; each has a deadline of its own."""

    READING = enum.auto()
    ANSWERING = enum.auto()
    WRITING = enum.auto()
    DRAINING = enum.auto()  # answered; a close now would reset what the peer has not read
    CLOSED = enum.auto()


LIMITS = {Phase.READING: 5.0, Phase.ANSWERING: 30.0, Phase.WRITING: 10.0, Phase.DRAINING: 1.0}
"""Seconds in a phase before the connection is closed."""


@dataclass(slots=True, kw_only=True, eq=False)
class Connection:
    """State of one client; nothing here waits."""

    peer: socket.socket
    deadline: float
    phase: Phase = Phase.READING
    _input: bytearray = field(default_factory=bytearray)
    _output: memoryview = field(default_factory=lambda: memoryview(b""))
    _head_only: bool = False

    def read(self, now: float) -> Request | None:
        """Take in what has come; a request once it is complete.

        A malformed or overlong one is answered here.
        """
        data = self._receive()
        if data is None:
            return None
        if not data:
            self.close()
            return None
        self._input += data
        if len(self._input) > REQUEST_BYTES:
            self.answer(_refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), now)
            return None
        return self._request(now) if _END.search(self._input) else None

    def _request(self, now: float) -> Request | None:
        line = _REQUEST_LINE.match(self._input)
        if line is None:
            self.answer(_refusal(HTTPStatus.BAD_REQUEST), now)
            return None
        method, target = line[1].decode("ascii"), line[2].decode("latin-1")
        self._head_only = method == "HEAD"
        if method not in {"GET", "HEAD"}:
            self.answer(_refusal(HTTPStatus.METHOD_NOT_ALLOWED), now)
            return None
        self.enter(Phase.ANSWERING, now)
        return Request(method=method, path=target.partition("?")[0])

    def answer(self, answer: Answer, now: float) -> None:
        """Begin to send an answer; ``write`` goes on with it."""
        self._output = memoryview(_head(answer) + (b"" if self._head_only else answer.body))
        self.enter(Phase.WRITING, now)
        self.write(now)

    def write(self, now: float) -> None:
        """Send what fits; when all is out, leave the peer time to read it."""
        try:
            sent = self.peer.send(self._output)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        self._output = self._output[sent:]
        if not self._output:
            with contextlib.suppress(OSError):
                self.peer.shutdown(socket.SHUT_WR)
            self.enter(Phase.DRAINING, now)

    def drain(self) -> None:
        """Throw away what still comes; close once the peer has."""
        if self._receive() == b"":
            self.close()

    def enter(self, phase: Phase, now: float) -> None:
        """Change the phase and start its time limit."""
        self.phase = phase
        self.deadline = now + LIMITS[phase]

    def close(self) -> None:
        """End it, whatever is still under way."""
        self.phase = Phase.CLOSED
        self.peer.close()

    def _receive(self) -> bytes | None:
        try:
            return self.peer.recv(REQUEST_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""


def _refusal(status: HTTPStatus) -> Answer:
    return plain(f"{status.phrase}: send GET or HEAD of /, /healthz, /readyz or /metrics", status)


def _head(answer: Answer) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        f"Content-Type: {answer.kind}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
        lines.append("Allow: GET, HEAD")
    return "\r\n".join([*lines, "", ""]).encode("ascii")
