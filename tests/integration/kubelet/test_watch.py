"""Following kubelet.sock, with inotify and without."""

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers import inotify_c

from deviceplugin.events import KubeletChanged
from deviceplugin.published import Published
from deviceplugin.watch.kubelet_socket import KubeletSeen, KubeletSocketWatch


@pytest.fixture
def watch(root: Path, record: Any) -> Iterator[Callable[..., Published[KubeletSeen]]]:
    """Start a watch of ``root`` on a thread of its own."""
    stop = threading.Event()
    ends: list[Callable[[], None]] = []

    def start(**settings: float) -> Published[KubeletSeen]:
        seen = Published(KubeletSeen())
        watching = KubeletSocketWatch(root, seen, record.emit, **settings)
        thread = threading.Thread(target=watching.run, args=(stop,))
        thread.start()
        ends.extend((watching.wake, thread.join))
        return seen

    yield start
    stop.set()
    for end in ends:
        end()


def listen(root: Path) -> socket.socket:
    """Be a kubelet as far as a connection goes."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(root / "kubelet.sock"))
    listening.listen(16)
    return listening


def wait_for(seen: Published[KubeletSeen], *, there: bool, timeout: float = 5.0) -> KubeletSeen:
    """Wait until a kubelet is there, or not."""
    return seen.wait(10**9, lambda: (seen.value.identity is not None) is there, timeout)[1]


def states(record: Any) -> list[str]:
    """States told so far; one told twice with other words counts once."""
    told = [event.state for event in record.of(KubeletChanged)]
    return [state for state, _ in itertools.groupby(told)]


def test_noticed_within_milliseconds(root: Path, watch: Any, record: Any) -> None:
    """A notice tells of a new kubelet.sock long before the next look."""
    seen = watch(look_every=30.0)
    assert record.wait(lambda: states(record) == ["absent"])
    with listen(root):
        begun = time.monotonic()
        assert wait_for(seen, there=True).problem == ""
        assert time.monotonic() - begun < 1
    assert states(record) == ["absent", "present"]


def test_bound_but_not_listening_yet(root: Path, watch: Any, record: Any) -> None:
    """Between bind and listen a socket refuses; it is tried again soon, not at the next look."""
    seen = watch(look_every=30.0)
    assert record.wait(lambda: states(record))
    with socket.socket(socket.AF_UNIX) as starting:
        starting.bind(str(root / "kubelet.sock"))
        assert record.wait(lambda: "refuses" in record.of(KubeletChanged)[-1].detail)
        starting.listen(16)
        assert wait_for(seen, there=True).identity is not None


def test_replaced_is_restarted(root: Path, watch: Any, record: Any) -> None:
    """A new file, even with the old one's inode number, is another identity and a restart."""
    with listen(root):
        seen = watch(look_every=30.0)
        first = wait_for(seen, there=True).identity
    (root / "kubelet.sock").unlink()
    assert wait_for(seen, there=False).problem.startswith("there is no")
    with listen(root):
        assert wait_for(seen, there=True).identity != first
    assert states(record) == ["present", "absent", "restarted"]


@pytest.mark.parametrize(
    "method",
    [
        pytest.param("_create_inotify_fd", id="instances"),
        pytest.param("_get_or_create_watch", id="watches"),
    ],
)
def test_without_inotify(
    root: Path,
    watch: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    record: Any,
    method: str,
) -> None:
    """Where inotify has run out the folder is looked at often enough, and that is said."""

    def exhausted(*_: object) -> None:
        raise OSError(24, "inotify limit reached")

    monkeypatch.setattr(inotify_c.InotifyFD, method, exhausted)
    seen = watch(look_every=30.0)
    assert record.wait(lambda: states(record))
    with listen(root):
        assert wait_for(seen, there=True).identity is not None
    assert "no inotify" in caplog.text


def test_dead_kubelet_is_found_when_suspected(root: Path, record: Any) -> None:
    """A file that stays behind looks sound until somebody suspects it."""
    stop = threading.Event()
    seen = Published(KubeletSeen())
    watching = KubeletSocketWatch(root, seen, record.emit, look_every=30.0)
    thread = threading.Thread(target=watching.run, args=(stop,))
    with listen(root):
        thread.start()
        wait_for(seen, there=True)
    watching.suspect()
    assert "refuses connections" in wait_for(seen, there=False).problem
    stop.set()
    watching.wake()
    thread.join(5)
    assert not thread.is_alive()


def test_false_suspicion_changes_nothing(rig: Any) -> None:
    """Suspecting a kubelet that answers is no change and no event."""
    before = len(rig.record.of(KubeletChanged))
    for _ in range(5):
        rig.side._watch.suspect()
    assert not rig.record.wait(lambda: len(rig.record.of(KubeletChanged)) > before, timeout=0.2)
