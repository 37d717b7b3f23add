"""Liveness by our own socket, and how little runs when there is nothing to serve."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

IDLE = """
import sys, threading
from pathlib import Path
from deviceplugin.kubelet.manager import KubeletSide
from deviceplugin.kubelet.options import KubeletOptions
from deviceplugin.published import Published
seen = threading.Event()
side = KubeletSide(KubeletOptions(vendor="nvidia", plugin_dir=Path(sys.argv[1])), Published({}),
                   lambda event: seen.set())
side.start()
side.serve([])
assert seen.wait(5)
side.stop(2.0)
print([name for name in ("grpc", "google.protobuf") if name in sys.modules])
"""


def test_idle_process_loads_no_grpc(root: Path) -> None:
    """Without anything to serve the heavy libraries stay out of the process."""
    done = subprocess.run(
        [sys.executable, "-c", IDLE, str(root)],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.strip() == "[]"


def test_alive_when_served(rig: Any) -> None:
    """Our own call over our own socket answers."""
    assert rig.side.self_check() == ""


def test_alive_before_anything_is_served(make_rig: Callable[..., Any]) -> None:
    """No kubelet or no socket yet is no failure."""
    rig = make_rig()
    rig.side.start()
    assert rig.side.self_check() == ""


def test_missing_socket_file_is_no_failure(rig: Any) -> None:
    """A kubelet that wiped our file is about to get a new one; we are alive."""
    (rig.kubelet.plugin_dir / rig.sockets()[0]).unlink()
    assert rig.side.self_check() == ""


def test_blocked_server_is_not_alive(make_rig: Callable[..., Any]) -> None:
    """When no thread is left to answer, the check says which socket is silent."""
    rig = make_rig(self_check_deadline=0.3).up()
    (registration,) = rig.side._registrations.values()
    release = threading.Event()
    for _ in range(rig.options.stream_slots + rig.options.unary_reserve):
        registration._life.generation._pool.submit(release.wait)
    problem = rig.side.self_check()
    release.set()
    assert rig.sockets()[0] in problem
    assert "DEADLINE_EXCEEDED" in problem


def test_serve_is_idempotent(rig: Any) -> None:
    """The loop may name the same resources at each turn."""
    threads = threading.active_count()
    for _ in range(5):
        rig.side.serve(["nvidia.com/gpu"])
    assert threading.active_count() == threads


def test_several_resources(make_rig: Callable[..., Any], gpus: Callable[..., Any]) -> None:
    """Each resource has a registration, a socket and a stream of its own."""
    rig = make_rig()
    other = gpus(3, name="nvidia.com/mig-1g.10gb")
    rig.show(gpus(), other)
    rig.up()
    assert rig.allocatable(3, other.name)
    assert len(rig.sockets()) == 2
    rig.kubelet.cut_stream(other.name)
    assert rig.allocatable(0, other.name)
    assert rig.allocatable(3, other.name)
    assert rig.kubelet.allocatable()["nvidia.com/gpu"] == 8
