"""The check command, on simulated machines."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deviceplugin import state
from deviceplugin.__main__ import main
from deviceplugin.faults import Memory, Remembered
from deviceplugin.inventory import Known
from deviceplugin.model import Action, Device, DeviceId, ResourceName

Check = Callable[..., tuple[int, list[str]]]

LIBRARY = Path("/var/lib/kubelet/device-plugins")

KNOWN = Known(
    device=Device(id=DeviceId("GPU-1"), resource=ResourceName("nvidia.com/gpu"), index=0), boot="b"
)


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """Give the log back: the command sets it up for its process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where a test writes its config."""
    return tmp_path / "nvidia.yaml"


@pytest.fixture
def check(tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Return a function that checks a text and gives exit code and lines."""

    def do(
        text: str, machine: str = "h100x8", *flags: str, vendor: str = "nvidia"
    ) -> tuple[int, list[str]]:
        file.write_text(text)
        arguments = ["--simulate", machine, "--state-dir", str(tmp_path / "state"), *flags]
        code = main(["check", vendor, str(file), *arguments])
        return code, capsys.readouterr().out.splitlines()

    return do


@pytest.fixture
def keep(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that saves a state of four shares a GPU, and gives its file."""

    def do(machine: str = "h100x8", plugin_dir: Path = LIBRARY, **content: Any) -> Path:
        kept = state.State(
            identity=state.Identity(plugin_dir=str(plugin_dir), machine=machine),
            config_source="nvidia.yaml",
            **{"config_text": "sharing: {timeSlicing: {replicas: 4}}", **content},
        )
        path = tmp_path / "state" / "nvidia.json"
        assert state.save(path, kept) == ""
        return path

    return do


def test_grows(check: Check, file: Path, tmp_path: Path) -> None:
    """More units under the same name, with the bytes of the new list."""
    code, lines = check("sharing: {timeSlicing: {replicas: 4}}")
    assert code == 0
    kept = tmp_path / "state" / "nvidia.json"
    assert lines == [
        f"{file} is valid",
        f"note: no state at {kept}: this is the first start, or the folder is new",
        "on simulated machine h100x8: 8 devices",
        "compared with the defaults:",
        "  nvidia.com/gpu  8 -> 32 units, grows, a list of 1,952 bytes",
    ]


def test_appears_and_vanishes(check: Check) -> None:
    """A rename lets one resource appear and the other vanish."""
    code, lines = check("sharing: {timeSlicing: {replicas: 2, renameByDefault: true}}")
    assert code == 0
    assert "  nvidia.com/gpu         8 -> 0 units, vanishes" in lines
    assert any("nvidia.com/gpu.shared  0 -> 16 units, appears" in line for line in lines)


def test_against_the_last_good_config(check: Check, keep: Callable[..., Path]) -> None:
    """With a state folder the last good config is what counts."""
    keep()
    code, lines = check("sharing: {timeSlicing: {replicas: 3}}")
    assert code == 0
    assert "compared with the last good config:" in lines
    assert any("32 -> 24 units, shrinks" in line for line in lines)
    assert not any(line.startswith("note: ") for line in lines)


@pytest.mark.parametrize(
    ("kept", "difference"),
    [
        ({"machine": "l4x1"}, "machine was 'l4x1' and is 'h100x8'"),
        ({"plugin_dir": "/mnt/plugins"}, f"plugin_dir was '/mnt/plugins' and is '{LIBRARY}'"),
    ],
    ids=["machine", "plugin-dir"],
)
def test_state_of_another_set_up(
    check: Check, keep: Callable[..., Path], kept: dict[str, str], difference: str
) -> None:
    """A state that cannot count is said to, with the difference, before the defaults do."""
    path = keep(**kept)
    code, lines = check("sharing: {timeSlicing: {replicas: 3}}")
    assert code == 0
    note = f"note: state ignored: {path} is of another set-up: {difference}"
    assert lines.index(note) < lines.index("compared with the defaults:")


def test_plugin_dir(check: Check, keep: Callable[..., Path]) -> None:
    """With the daemon's own plugin folder its state counts."""
    keep(plugin_dir="/mnt/plugins")
    _, lines = check("", "h100x8", "--plugin-dir", "/mnt/plugins")
    assert "compared with the last good config:" in lines


def test_state_without_a_config(check: Check, keep: Callable[..., Path]) -> None:
    """A state of a daemon that never had a config is no reason for a note."""
    fault = Remembered(
        device=DeviceId("GPU-1"),
        kind="xid-79",
        detail="fell off",
        action=Action.REBOOT,
        episodes=((1.0, 1.0),),
    )
    keep(config_text=None, boot="b", faults=Memory(records=(fault,)), known=(KNOWN,))
    _, lines = check("")
    assert "compared with the defaults:" in lines
    assert not any(line.startswith("note: ") for line in lines)


def test_last_good_config_of_an_older_version(check: Check, keep: Callable[..., Path]) -> None:
    """A last good config that is refused today is said, and the defaults count."""
    keep(config_text="gone: true")
    _, lines = check("")
    assert "compared with the defaults (the last good config is invalid):" in lines


def test_unmet(check: Check) -> None:
    """What this node cannot meet is said with its place, and is no failure."""
    code, lines = check(
        "sharing:\n  timeSlicing:\n    resources:\n"
        "    - {name: gpu, replicas: 2, devices: [0, 9]}\n"
        "    - {name: mig-1g.10gb, replicas: 2}\n"
    )
    assert code == 0
    unmet = [line for line in lines if line.startswith("unmet: ")]
    assert len(unmet) == 2
    assert unmet[0].startswith("unmet: nvidia.yaml:4 sharing.timeSlicing.resources[0]: ")
    assert "nvidia.com/mig-1g.10gb" in unmet[1]


def test_too_big_a_list(check: Check) -> None:
    """A list that the kubelet would not take is unmet, with the arithmetic."""
    code, lines = check("sharing: {timeSlicing: {replicas: 65536}}")
    assert code == 0
    (unmet,) = [line for line in lines if line.startswith("unmet: ")]
    assert "the kubelet accepts 4,194,304" in unmet
    assert any("8 -> 8 units, stays" in line for line in lines)


def test_cdi_without_a_spec(check: Check) -> None:
    """A delivery that this node cannot make is unmet."""
    code, lines = check("flags: {plugin: {deviceListStrategy: cdi-cri}}")
    assert code == 0
    assert "  flags.plugin.deviceListStrategy: envvar -> cdi-cri" in lines
    assert any(line.startswith("unmet: nvidia.com/gpu: waiting for CDI spec") for line in lines)


TWO_NAMES = (
    "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2, rename: x, devices: [0]}]}}"
)


@pytest.mark.parametrize(
    ("flags", "key"),
    [
        ("", "NVIDIA_VISIBLE_DEVICES"),
        ("flags: {plugin: {deviceListStrategy: cdi-cri}}", None),
        ("flags: {plugin: {deviceListStrategy: volume-mounts}}", None),
    ],
    ids=["envvar", "CDI", "volume-mounts"],
)
def test_collisions(check: Check, flags: str, key: str | None) -> None:
    """Resources that overwrite each other in one container are named, others are not."""
    code, lines = check(f"{TWO_NAMES}\n{flags}")
    assert code == 0
    collisions = [line for line in lines if line.startswith("collision: ")]
    if key is None:
        assert collisions == []
    else:
        (line,) = collisions
        assert line.startswith(f"collision: {key} comes from each of nvidia.com/gpu, nvidia.com/x:")


def test_settings(check: Check) -> None:
    """Settings that no count of units shows are told apart."""
    _, lines = check(
        "flags: {plugin: {passDeviceSpecs: true, sharedDevicesAllocationPolicy: packed}}\n"
        "health: {xids: {79: ignore}}\n"
        "sharing: {timeSlicing: {replicas: 1, failRequestsGreaterThanOne: true}}\n"
    )
    assert lines[5:] == [
        "  flags.plugin.sharedDevicesAllocationPolicy: distributed -> packed",
        "  sharing.timeSlicing.failRequestsGreaterThanOne: false -> true",
        "  health.xids: none -> xid-79 ignore",
        "  flags.plugin.passDeviceSpecs: unset -> true",
    ]


def test_warnings(check: Check, file: Path) -> None:
    """Warnings come first, and are counted."""
    code, lines = check("flags: {failOnInitError: true}")
    assert code == 0
    assert lines[0].startswith(f"warning: {file}:1: flags.failOnInitError has no effect here")
    assert lines[1] == f"{file} is valid, 1 warning"


def test_invalid(check: Check, file: Path) -> None:
    """An invalid config gives all problems and exit code 1."""
    code, lines = check("version: v2\nflgs: {}\n")
    assert code == 1
    assert lines == [
        f'{file}:1: version: found "v2"; write version: v1',
        f"{file}:2: flgs: found an unknown key; write flags",
        f"{file} is invalid: 2 problems",
    ]


def test_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is not there is no valid config."""
    missing = tmp_path / "none.yaml"
    assert main(["check", "nvidia", str(missing), "--simulate", "none"]) == 1
    assert capsys.readouterr().out == f"{missing}: there is no such file\n"


def test_without_hardware(check: Check) -> None:
    """Where the hardware cannot be reached the config is valid all the same."""
    code, lines = check("flags: {nvidiaDevRoot: /x}", "none")
    assert code == 0
    assert lines[2].startswith("no plan for this node: no-library")
    assert lines[3] == "  flags.nvidiaDevRoot: unset -> /x (compared with the defaults)"


def test_amd_partitions_under_one_name(check: Check) -> None:
    """Of unlike partitions it says how many units pods can get, and what serves the others."""
    code, lines = check("version: v1", "mi300x-mixed", vendor="amd")
    assert code == 0
    assert any("29 -> 29 units, stays (5 given out)" in line for line in lines)
    assert any("held back" in line and "partitionStrategy: mixed" in line for line in lines)


def test_amd_partitions_by_kind(check: Check) -> None:
    """The mixed strategy brings a resource for each kind, and the setting is told by its key."""
    code, lines = check("flags: {partitionStrategy: mixed}", "mi300x-mixed", vendor="amd")
    assert code == 0
    words = "\n".join(lines)
    assert "amd.com/cpx_nps1  0 -> 24 units, appears" in words
    assert "amd.com/spx_nps1  0 -> 5 units, appears" in words
    assert "flags.partitionStrategy: single -> mixed" in words
    assert "unmet" not in words


def test_amd_mistakes(check: Check) -> None:
    """A key of the other plugin is named with ours, and nothing is planned."""
    code, lines = check("flags: {resource_naming_strategy: mixed}", "radeon", vendor="amd")
    assert code == 1
    assert "write flags.partitionStrategy" in lines[0]
