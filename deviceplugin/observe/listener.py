"""A listening TCP socket that is tried again while its address is taken."""

import logging
import socket
from dataclasses import dataclass, field

from deviceplugin.config.settings import SettingsError

logger = logging.getLogger(__name__)

BACKLOG = 64

REBIND = 1.0
"""Seconds between tries to listen; a predecessor that still ends frees the port soon."""

_PORTS = 1 << 16


class AddressError(SettingsError):
    """The address to listen on cannot be understood."""


def parse_address(address: str) -> tuple[str, int]:
    """``HOST:PORT``, ``[::1]:PORT`` or ``:PORT`` (all interfaces, IPv4) as host and port.

    Raises:
        AddressError: it is none of these.

    """
    host, colon, port = address.rpartition(":")
    if not (colon and port.isascii() and port.isdigit() and int(port) < _PORTS):
        raise AddressError(f"metrics address {address!r}: write HOST:PORT, as 127.0.0.1:9481")
    return host.removeprefix("[").removesuffix("]"), int(port)


@dataclass(slots=True, kw_only=True)
class Listener:
    """The socket, once there is one.

    Attributes:
        again: when the next try is due.

    """

    host: str
    port: int
    listening: socket.socket | None = None
    again: float = 0.0
    _said: str = field(default="", init=False)

    def open(self, now: float) -> socket.socket | None:
        """Try to listen if that is due; the new socket, or None. One log line for each error."""
        if self.listening is not None or now < self.again:
            return None
        try:
            self.listening = _listening(self.host, self.port)
        except OSError as error:
            self.again = now + REBIND
            self._say(str(error))
            return None
        logger.info("serving metrics and probes", extra={"host": self.host, "port": self.bound})
        return self.listening

    @property
    def bound(self) -> int:
        """The port listened on; 0 while there is none."""
        listener = self.listening
        return int(listener.getsockname()[1]) if listener is not None else 0

    def accept(self) -> socket.socket | None:
        """Take one waiting client, which will not block; None when there is none to have."""
        if self.listening is None:
            return None
        try:
            client, _ = self.listening.accept()
        except BlockingIOError:
            return None
        client.settimeout(0.0)
        return client

    def close(self) -> None:
        """Stop listening."""
        if self.listening is not None:
            self.listening.close()
            self.listening = None

    def _say(self, error: str) -> None:
        if error != self._said:
            self._said = error
            logger.warning(
                "cannot listen for metrics and probes, trying again; set another --metrics-address",
                extra={"host": self.host, "port": self.port, "error": error},
            )


def _listening(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(
        host or "0.0.0.0",  # noqa: S104 - the user wrote ":PORT"
        port,
        type=socket.SOCK_STREAM,
        flags=socket.AI_PASSIVE,
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        # A predecessor's connections in TIME_WAIT must not keep us from the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.settimeout(0.0)
    return listener
