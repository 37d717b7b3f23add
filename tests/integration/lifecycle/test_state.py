"""The state folder is missing, unusable, or somebody else's: served all the same, and said."""

import json
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
    assert until(lambda: state.exists() and len(json.loads(state.read_text())["known"]) == 8)
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


def half(text: str) -> str:
    """Cut a state off, as a crash of the node may."""
    return text[: len(text) // 2]


def of_another_folder(text: str) -> str:
    """Say that the state belongs to another plugin folder."""
    state = json.loads(text)
    state["identity"]["plugin_dir"] = "/elsewhere"
    return json.dumps(state)


def of_a_newer_version(text: str) -> str:
    """Say that a newer daemon wrote it."""
    return json.dumps({**json.loads(text), "version": 99})


def nothing(text: str) -> str:
    """Leave no content, as a full disk may."""
    return text[:0]


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        (half, "is broken"),
        (nothing, "is broken"),
        (of_another_folder, "is of another set-up: plugin_dir was '/elsewhere'"),
        (of_a_newer_version, "has format 99"),
    ],
)
def test_an_unusable_state_counts_as_none(
    spoilt: Callable[[str], str],
    why: str,
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    saved: Path,
    until: Until,
) -> None:
    """It is said why the state is not used, all is served, and a good state is written."""
    good = saved.read_text()
    saved.write_text(spoilt(good))
    daemon = start()
    assert daemon.says("state ignored", why)
    assert serves(kubelet, 8)
    assert until(lambda: saved.read_text() == good)


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
