"""The kubelet's own listening sockets, and the folder it wipes."""

import contextlib
import stat
import tempfile
from concurrent import futures
from pathlib import Path

import grpc


def wipe(folder: Path) -> None:
    """Remove every socket directly in a folder; plain files and sub-folders stay."""
    for path in folder.iterdir():
        # A plugin that just noticed our end removes its own socket meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()


class SocketServer:
    """A gRPC server whose socket file outlives it, as that of a process that died.

    gRPC unlinks its path when a server stops. So it binds through a link to the
    folder, and the link goes first: the unlink finds nothing.
    """

    def __init__(self, path: Path, *, threads: int, name: str) -> None:
        """Prepare; nothing listens yet."""
        self.path = path
        self._pool = futures.ThreadPoolExecutor(threads, thread_name_prefix=name)
        self.server = grpc.server(self._pool, options=[("grpc.so_reuseport", 0)])
        self._alias = tempfile.TemporaryDirectory(prefix="dpk")
        self._link = Path(self._alias.name, "d")

    def start(self) -> None:
        """Replace the socket file and listen.

        Raises:
            RuntimeError: the path cannot be bound.

        """
        self.path.unlink(missing_ok=True)
        self._link.symlink_to(self.path.parent)
        self.server.add_insecure_port(f"unix:{self._link / self.path.name}")
        self.server.start()

    def stop(self) -> None:
        """Break every call and stop listening; the socket file stays."""
        self._link.unlink(missing_ok=True)
        self.server.stop(None).wait(timeout=5)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._alias.cleanup()
