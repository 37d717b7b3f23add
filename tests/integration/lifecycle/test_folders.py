"""The kubelet's folder is missing, locked, or not what it should be."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import SimulatedKubelet

NOBODY = 65534

Serves = Callable[..., bool]
Until = Callable[..., bool]


def test_a_plugin_folder_that_comes_later(
    root: Path, start: Callable[..., Any], serves: Serves
) -> None:
    """Before the kubelet's first start there is no folder; /readyz says so, and it is awaited."""
    daemon = start()
    assert daemon.says("kubelet absent", "there is no folder")
    assert daemon.says("lock", "held=False", "must exist")
    assert daemon.says("devices found")
    with SimulatedKubelet(root) as kubelet:
        assert serves(kubelet, 8)
        assert daemon.said("lock", "held=True")


def test_a_folder_that_is_replaced(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves
) -> None:
    """A plugin folder moved away and made anew, with a new kubelet in it, is followed."""
    daemon = start()
    assert serves(kubelet, 8)
    kubelet.stop()
    kubelet.plugin_dir.rename(kubelet.plugin_dir.with_name("old"))
    kubelet.start()
    assert serves(kubelet, 8)
    assert daemon.running


def test_a_file_in_place_of_the_folder(
    root: Path, start: Callable[..., Any], serves: Serves
) -> None:
    """A plain file where the folder should be is told, and once it is gone all is well."""
    folder = root / "device-plugins"
    folder.write_text("")
    daemon = start()
    assert daemon.says("lock", "held=False", "must exist")
    assert daemon.says("kubelet absent", str(folder))
    folder.unlink()
    with SimulatedKubelet(root) as kubelet:
        assert serves(kubelet, 8)


def test_a_file_in_place_of_the_socket(
    root: Path, start: Callable[..., Any], serves: Serves, until: Until
) -> None:
    """A plain file at kubelet.sock is told with the remedy; the kubelet that replaces it is met."""
    sock = root / "device-plugins" / "kubelet.sock"
    sock.parent.mkdir()
    sock.write_text("")
    daemon = start()
    assert daemon.says("kubelet absent", "is not a socket: remove it")
    assert until(lambda: "is not a socket" in daemon.get("readyz")[1])
    assert daemon.get("readyz")[0] == 503
    with SimulatedKubelet(root) as kubelet:
        assert serves(kubelet, 8)
        assert until(lambda: daemon.get("readyz") == (200, "ready\n"))


def can_run_as_nobody() -> bool:
    """Whether another user may start this Python with our package."""
    command = [sys.executable, "-c", "import deviceplugin.daemon"]
    try:
        return not subprocess.run(command, user=NOBODY, capture_output=True, check=False).returncode
    except (OSError, subprocess.SubprocessError):
        return False


def test_a_folder_that_may_not_be_written(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, root: Path
) -> None:
    """Without write permission nothing can be served: it is told, awaited, and healed."""
    if os.geteuid() == 0 and not can_run_as_nobody():
        pytest.skip("as root a folder is never read-only, and no other user can run this Python")
    root.chmod(0o711)
    kubelet.plugin_dir.chmod(0o555)
    daemon = start(user=NOBODY if os.geteuid() == 0 else None)
    assert daemon.says("lock", "held=False", "cannot be locked: Permission denied")
    assert daemon.says("devices found")
    assert not kubelet.allocatable()
    for path in (kubelet.plugin_dir, kubelet.plugin_dir / "kubelet.sock"):
        path.chmod(0o777)
    assert serves(kubelet, 8)
