"""The state folder is missing, unusable, or somebody else's: served all the same, and said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import SimulatedKubelet

Serves = Callable[..., bool]
Until = Callable[..., bool]

FAULT = {"xid": 48, "gpu": 3}  # waits for a reset


@pytest.fixture
def state(root: Path) -> Path:
    """The state file."""
    return root / "state" / "nvidia.json"


@pytest.fixture
def saved(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, state: Path, until: Until
) -> Path:
    """The state file of a daemon that served eight GPUs and was killed."""
    daemon = start()
    assert serves(kubelet, 8)
    assert until(lambda: state.exists() and state.read_text().count("pci_address") == 8)
    daemon.kill()
    return state


def test_a_missing_state_folder_is_made(saved: Path, start: Callable[..., Any]) -> None:
    """A first start makes the folder and keeps what it knows there; the next one uses it."""
    daemon = start()
    assert daemon.says("devices found")
    assert not daemon.said("state ignored")
    assert not daemon.said("no state at")
    assert saved.stat().st_mode & 0o077 == 0


def test_a_state_folder_that_cannot_be_written(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, state: Path, until: Until
) -> None:
    """With a plain file in the folder's place all is served; log and metric say what is lost."""
    state.parent.write_text("")
    daemon = start()
    assert serves(kubelet, 8)
    assert daemon.says("state cannot be written", str(state))
    assert until(lambda: daemon.metric("state_saved") == 0)
    assert daemon.get("readyz")[0] == 200


def half(text: bytes) -> bytes:
    """Cut a state off, as a crash of the node may."""
    return text[: len(text) // 2]


def changed(text: bytes) -> bytes:
    """Change a letter, as a disk may."""
    return text.replace(b"whole", b"hole", 1)


def empty(text: bytes) -> bytes:
    """Leave no content, as a full disk may."""
    return text[:0]


def of_a_newer_version(text: bytes) -> bytes:
    """Say that a newer daemon wrote it."""
    return text.replace(b'"version": 1', b'"version": 99', 1)


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        (half, "is broken"),
        (changed, "is broken"),
        (empty, "is broken"),
        (of_a_newer_version, "has format 99"),
    ],
)
def test_an_unusable_state_counts_as_none(
    spoilt: Callable[[bytes], bytes],
    why: str,
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    saved: Path,
    until: Until,
) -> None:
    """It is said why the state is not used, all is served, and a good state is written."""
    good = saved.read_bytes()
    saved.write_bytes(spoilt(good))
    daemon = start()
    assert daemon.says("state ignored", why)
    assert serves(kubelet, 8)
    assert until(lambda: saved.read_bytes() == good)


def test_the_state_of_another_plugin_folder_is_not_ours(
    start: Callable[..., Any], root: Path, saved: Path
) -> None:
    """What was listed to another kubelet is not listed to this one."""
    with SimulatedKubelet(root / "b") as other:
        daemon = start("--plugin-dir", str(other.plugin_dir))
        assert daemon.says("state ignored", str(saved), "plugin_dir was")
        assert other.wait(lambda: len(other.history) > 0)
        assert len(other.history[-1].ids) == 8


def test_a_fault_outlives_a_restart_and_ends_with_the_boot(
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    control: Any,
    root: Path,
    state: Path,
    until: Until,
) -> None:
    """What waits for a reset is still Unhealthy after our restart, and well after the node's."""
    boot = root / "proc" / "sys" / "kernel" / "random" / "boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("first\n")
    flags = ("--procfs", str(root / "proc"))
    daemon = start(*flags)
    assert serves(kubelet, 8)
    control(**FAULT)
    assert serves(kubelet, 7)
    assert until(lambda: "xid-48" in state.read_text())
    daemon.kill()
    lists = len(kubelet.history)
    daemon = start(*flags)
    assert kubelet.wait(lambda: len(kubelet.history) > lists)
    assert len(kubelet.history[-1].healthy) == 7
    daemon.kill()
    boot.write_text("second\n")
    daemon = start(*flags)
    assert serves(kubelet, 8)
    assert daemon.said("the node rebooted", "1 faults are over")
