"""gRPC channels to Unix sockets."""

from pathlib import Path
from urllib.parse import quote

import grpc

# A shared subchannel would remember that the socket of the same name refused before.
_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
)


def target(path: Path) -> str:
    """Spell the socket as gRPC wants it."""
    return f"unix:{quote(str(path))}"


def to_socket(path: Path) -> grpc.Channel:
    """Make a channel that connects at its first call."""
    return grpc.insecure_channel(target(path), options=_OPTIONS)


def reason(error: grpc.RpcError) -> str:
    """Say in one line what gRPC says."""
    return f"{error.code().name}: {error.details()}"
