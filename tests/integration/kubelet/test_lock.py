"""One process for each vendor and plugin folder, and how another takes over."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.events import LockChanged
from deviceplugin.kubelet.lock import PluginLock, end_holder
from deviceplugin.simulation.kubelet import SimulatedKubelet

HOLD = """
import sys
from pathlib import Path
from deviceplugin.kubelet.lock import PluginLock
lock = PluginLock(Path(sys.argv[1]), "nvidia")
print(lock.take(), flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run another process that has the lock, with these words in its command line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert "held=True" in process.stdout.readline()
        yield process
        process.kill()


def test_lock_is_exclusive_and_names_its_holder(root: Path) -> None:
    """A second try fails and tells the holder's pid; once released it succeeds."""
    first, second = PluginLock(root, "nvidia"), PluginLock(root, "nvidia")
    assert first.take().held
    assert first.take().held
    refused = second.take()
    assert (refused.held, refused.holder_pid) == (False, os.getpid())
    first.release()
    assert second.take().held
    second.release()


def test_vendors_do_not_lock_each_other_out(root: Path) -> None:
    """Each vendor has a lock of its own."""
    locks = [PluginLock(root, vendor) for vendor in ("nvidia", "amd")]
    assert all(lock.take().held for lock in locks)
    for lock in locks:
        lock.release()


def test_removed_lock_file_is_noticed(root: Path) -> None:
    """Who holds a file that was removed holds nothing, and takes the new one."""
    lock = PluginLock(root, "nvidia")
    assert lock.take().held
    lock.path.unlink()
    assert not lock.is_intact()
    assert lock.take().held
    assert lock.is_intact()
    lock.release()


def test_lock_of_a_killed_process_is_free(root: Path) -> None:
    """A kill releases the lock: the file that stays means nothing."""
    lock = PluginLock(root, "nvidia")
    with holder(root) as process:
        assert lock.take().holder_pid == process.pid
        process.kill()
        process.wait(5)
        assert lock.path.exists()
        assert lock.take().held
    lock.release()


@pytest.mark.parametrize("content", ["", "not a pid\n", "9" * 40])
def test_odd_content_of_the_lock_file(root: Path, content: str) -> None:
    """Whatever stands in the file, the lock works and the holder is just unknown."""
    lock, other = PluginLock(root, "nvidia"), PluginLock(root, "nvidia")
    assert lock.take().held
    lock.path.write_text(content)
    assert not other.take().held
    lock.release()


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        pytest.param(("-m", "deviceplugin", "run", "nvidia"), True, id="module"),
        pytest.param(("/usr/bin/deviceplugin", "run", "nvidia"), True, id="script"),
        pytest.param(("deviceplugin", "run", "amd"), False, id="another vendor"),
        pytest.param(("postgres", "nvidia"), False, id="another program"),
    ],
)
def test_only_a_process_of_ours_is_signalled(
    root: Path, words: tuple[str, ...], *, sent: bool
) -> None:
    """SIGTERM goes to a pid only where its command line is ours, for this vendor."""
    with holder(root, *words) as process:
        assert end_holder(process.pid, "nvidia") is sent
        if sent:
            assert process.wait(5) == -signal.SIGTERM


def test_a_pid_that_is_not_there_is_no_error(root: Path) -> None:
    """A holder in another pid namespace cannot be seen, hence is not signalled."""
    assert not end_holder(1, "nvidia", procfs=root)
    assert not end_holder(os.getpid(), "nvidia")


def test_take_over(make_rig: Callable[..., Any], kubelet: SimulatedKubelet) -> None:
    """With take_over the holder is asked to end, and we serve once it has."""
    with holder(kubelet.plugin_dir, "deviceplugin", "run", "nvidia") as process:
        make_rig(take_over=True).up()
        assert process.wait(5) == -signal.SIGTERM


def test_take_over_of_someone_unseen_waits(
    make_rig: Callable[..., Any],
    kubelet: SimulatedKubelet,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where the holder is not visibly ours it is waited for, and that is said once."""
    with holder(kubelet.plugin_dir, "something-else"):
        rig = make_rig(take_over=True)
        rig.side.start()
        assert rig.record.wait(lambda: "cannot be seen" in caplog.text)
        assert not rig.record.of(LockChanged)[-1].held
    assert rig.record.wait(lambda: rig.record.of(LockChanged)[-1].held)
    assert caplog.text.count("cannot be seen") == 1
