"""The kubelet's folder is missing, locked, or not what it should be."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import SimulatedKubelet

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


@pytest.fixture
def unprivileged() -> Sequence[str]:
    """Words before a command that have permissions count for it, as they do without root."""
    if os.geteuid():
        return ()
    if not shutil.which("setpriv"):
        pytest.skip("for root no folder is read-only, and there is no setpriv to change that")
    powers = "-dac_override,-dac_read_search"
    return ("setpriv", f"--bounding-set={powers}", f"--inh-caps={powers}")


def test_a_folder_that_may_not_be_written(
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    unprivileged: Sequence[str],
) -> None:
    """Without write permission nothing can be served: it is told, awaited, and healed."""
    kubelet.plugin_dir.chmod(0o555)
    daemon = start(through=unprivileged)
    assert daemon.says("lock", "held=False", "cannot be locked: Permission denied")
    assert daemon.says("devices found")
    assert not kubelet.allocatable()
    kubelet.plugin_dir.chmod(0o755)
    assert serves(kubelet, 8)
