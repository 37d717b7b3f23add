"""The command line as a shell sees it: exit codes, and which stream says what."""

import subprocess
import sys
from pathlib import Path

import pytest

GOOD = "version: v1\n"
WRONG = "version: v1\nsharing:\n  timeSlicing:\n    resource: []\n"


def deviceplugin(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    command = [sys.executable, "-m", "deviceplugin", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param((), "COMMAND", id="no-command"),
        pytest.param(("serve",), "invalid choice", id="unknown-command"),
        pytest.param(("run",), "VENDOR", id="no-vendor"),
        pytest.param(("run", "tpu"), "write one of", id="unknown-vendor"),
        pytest.param(("run", "nvidia", "--plugin-folder", "x"), "unrecognized", id="unknown-flag"),
        pytest.param(
            ("check", "nvidia", "x", "--log-level", "info"), "unrecognized", id="log-of-check"
        ),
        pytest.param(
            ("run", "nvidia", "--timing", "pause=1"), "no such time limit", id="unknown-timing"
        ),
        pytest.param(
            ("run", "nvidia", "--metrics-address", "nine"), "HOST:PORT", id="wrong-address"
        ),
    ],
)
def test_wrong_use_exits_with_2_and_says_what_to_write(words: tuple[str, ...], said: str) -> None:
    """Wrong words on the command line start nothing and are explained on standard error."""
    ended = deviceplugin(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("run", "nvidia", "--simulate", "h9000"), id="run"),
        pytest.param(("simulate", "h9000"), id="simulate"),
        pytest.param(("check", "nvidia", "x", "--simulate", "h9000"), id="check"),
    ],
)
def test_a_machine_that_is_not_shipped_exits_with_2(words: tuple[str, ...]) -> None:
    """An unknown machine is answered with those there are."""
    ended = deviceplugin(*words)
    assert ended.returncode == 2
    assert "h100x8" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        pytest.param(GOOD, 0, "is valid", id="valid"),
        pytest.param(WRONG, 1, ":4: sharing.timeSlicing.resource:", id="invalid"),
        pytest.param(None, 1, "no such file", id="missing"),
    ],
)
def test_check_answers_by_its_exit_code(
    tmp_path: Path, text: str | None, code: int, said: str
) -> None:
    """A script can tell a valid config from an invalid one."""
    file = tmp_path / "nvidia.yaml"
    if text is not None:
        file.write_text(text)
    ended = deviceplugin("check", "nvidia", file, "--simulate", "l4x1")
    assert (ended.returncode, ended.stderr) == (code, "")
    assert said in ended.stdout


def test_check_exits_with_0_when_this_node_cannot_meet_an_entry(tmp_path: Path) -> None:
    """One ConfigMap serves many nodes: unmet is not invalid."""
    file = tmp_path / "nvidia.yaml"
    file.write_text(
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
        "    - {name: nvidia.com/gpu, replicas: 2, devices: [7]}\n"
    )
    ended = deviceplugin("check", "nvidia", file, "--simulate", "l4x1")
    assert ended.returncode == 0
    assert "unmet" in ended.stdout


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("version",)])
def test_help_and_version_go_to_standard_output(words: tuple[str, ...]) -> None:
    """What was asked for is on standard output, and the code says that all is well."""
    ended = deviceplugin(*words)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout
