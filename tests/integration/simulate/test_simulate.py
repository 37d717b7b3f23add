"""The whole node in one go: real processes, sockets and signals."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

EDIT = """\
version: v1
sharing:
  timeSlicing:
    resources:
      - name: nvidia.com/gpu
        replicas: {replicas}
"""
PATIENCE = 20.0

Start = Callable[..., Any]
"""Returns the conftest's Simulation."""


def _gone(pid: int) -> bool:
    """Whether a process is no more, or a zombie nobody has collected yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def _wait(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    return condition()


def test_a_node_lives(start: Start) -> None:
    """Without arguments eight GPUs are served within seconds, and a pod gets some."""
    simulation = start()
    assert simulation.until("start")["machine"] == "h100x8"
    listed = simulation.until("list")
    assert (listed["resource"], listed["allocatable"]) == ("nvidia.com/gpu", 8)
    pod = simulation.until("pod")
    assert pod["admitted"]
    assert pod["units"]


def test_it_ends_by_itself(start: Start) -> None:
    """After its time it ends in order, and nothing is left."""
    simulation = start("--for", "1")
    assert simulation.end() == 0
    assert simulation.seen[-1]["event"] == "end"
    assert not simulation.root.exists()


def test_an_edit_is_followed_and_a_wrong_one_refused(start: Start) -> None:
    """An edit brings more units, timed; a wrong one is refused by file and line; Ctrl-C ends."""
    simulation = start("a100x4", "--for", "60")
    config = Path(str(simulation.until("start")["config"]))
    simulation.until("list")
    config.write_text(EDIT.format(replicas=4))
    grown = simulation.until("list", lambda event: event["allocatable"] == 16)
    assert 0 < float(str(grown["after_edit_ms"])) < 3000
    config.write_text(EDIT.format(replicas=0))
    refused = simulation.until("config", lambda event: bool(event["bad"]))
    assert f"{config.name}:6: " in str(refused["text"])
    simulation.process.send_signal(signal.SIGINT)
    assert simulation.end() == 0
    assert not simulation.root.exists()


def test_a_config_dir_is_used_and_kept(start: Start, tmp_path: Path) -> None:
    """A folder of the user's own is watched as it is, and outlives the simulation."""
    config = tmp_path / "nvidia.yaml"
    config.write_text(EDIT.format(replicas=3))
    simulation = start("l4x1", "--config-dir", str(tmp_path), "--for", "60")
    assert simulation.until("list")["capacity"] == 3
    simulation.process.terminate()
    assert simulation.end() == 0
    assert config.read_text() == EDIT.format(replicas=3)


def test_faults_come_and_go(start: Start, tmp_path: Path) -> None:
    """A demo's timeline makes a GPU unhealthy and good again; the daemon says why."""
    machine = tmp_path / "m.yaml"
    machine.write_text(
        "nvidia: {gpus: {count: 2}}\n"
        "demo: {pods: 0, timeline: [{at: 1.5, lost: 1}, {at: 3, recover: 1}]}\n"
    )
    simulation = start(
        str(machine), "--for", "60", DEVICEPLUGIN_TIMING="recovery-hold=0.5,rescan=1"
    )
    simulation.until("list", lambda event: event["allocatable"] == 2)
    simulation.until("list", lambda event: event["allocatable"] == 1)
    simulation.until("list", lambda event: event["allocatable"] == 2)
    told = [str(event["text"]) for event in simulation.seen]
    assert any("GPU 1" in text and "lost" in text for text in told)


def test_a_machine_without_gpus_is_a_quiet_node(start: Start) -> None:
    """Without hardware nothing is listed, nothing fails."""
    simulation = start("none", "--for", "2")
    assert simulation.end() == 0
    assert "list" not in {event["event"] for event in simulation.seen}


def test_a_dead_daemon_is_reported(start: Start) -> None:
    """When the daemon dies the simulation ends with code 1 and the daemon's last words."""
    simulation = start("l4x1", "--for", "60")
    daemon = simulation.until("daemon", lambda event: event.get("message") == "starting")
    os.kill(int(str(daemon["pid"])), signal.SIGKILL)
    dead = simulation.until("daemon", lambda event: "code" in event)
    assert dead["code"] == -signal.SIGKILL
    assert dead["last"]
    assert simulation.end() == 1
    assert not simulation.root.exists()


def test_a_killed_simulation_leaves_no_daemon(start: Start) -> None:
    """The daemon ends even when the simulation could not end it."""
    simulation = start("l4x1", "--for", "60")
    daemon = simulation.until("daemon", lambda event: event.get("message") == "starting")
    simulation.process.kill()
    assert _wait(lambda: _gone(int(str(daemon["pid"]))))


def test_plain_lines(
    simulate_command: Callable[..., tuple[str, ...]], environment: Mapping[str, str]
) -> None:
    """Without a terminal the story is told in lines that people can read."""
    with subprocess.Popen(
        simulate_command("l4x1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline()]
        while lines[-1] and "got GPU 0 in" not in lines[-1]:
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        lines += process.stdout.readlines()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""
    assert "machine l4x1" in lines[0]
    assert any("nvidia.com/gpu: capacity 0 → 1, allocatable 0 → 1\n" in line for line in lines)
    assert any("got GPU 0 in" in line for line in lines)
    assert "ended after" in lines[-1]


def test_a_poor_locale_gets_the_story_too(
    simulate_command: Callable[..., tuple[str, ...]], environment: Mapping[str, str]
) -> None:
    """Where the output can only be ASCII, what cannot be written becomes a question mark."""
    with subprocess.Popen(
        simulate_command("l4x1"),
        stdout=subprocess.PIPE,
        env={**environment, "PYTHONIOENCODING": "ascii"},
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while lines[-1] and b"allocatable 0 ? 1" not in lines[-1]:
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.stdout.readlines()[-1].endswith(b"removed\n")
        assert process.wait(PATIENCE) == 0


def test_a_terminal_gets_the_live_view(
    simulate_command: Callable[..., tuple[str, ...]], environment: Mapping[str, str]
) -> None:
    """On a terminal the view is drawn on a screen of its own, which is given back in the end."""
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        simulate_command("l4x1"),
        stdout=theirs,
        env={**environment, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
    )
    os.close(theirs)
    shown = b""
    try:
        while b"in use" not in shown or b"GPU 0" not in shown:
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        assert _drain(ours).rpartition(b"\x1b[?1049l")[2].startswith(b"ended after")
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _drain(descriptor: int) -> bytes:
    text = b""
    try:
        while piece := os.read(descriptor, 65536):
            text += piece
    except OSError:  # how a terminal says that nobody is at the other end
        pass
    return text


def test_a_reader_may_stop_listening(
    simulate_command: Callable[..., tuple[str, ...]], environment: Mapping[str, str]
) -> None:
    """In front of `head` it ends quietly once nobody reads any more."""
    with subprocess.Popen(
        simulate_command("l4x1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "machine l4x1" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("h100x9",), 2, "did you mean"),
        (("--config-dir", "/nonexistent"), 1, "make it, or leave the flag out"),
        (("--metrics-address", "nowhere"), 2, "write HOST:PORT"),
    ],
    ids=["unknown machine", "no config folder", "no address"],
)
def test_wrong_use_is_told(
    simulate_command: Callable[..., tuple[str, ...]],
    environment: Mapping[str, str],
    arguments: tuple[str, ...],
    code: int,
    told: str,
) -> None:
    """What cannot be simulated is said in one line, with what to write instead."""
    done = subprocess.run(
        simulate_command(*arguments),
        capture_output=True,
        text=True,
        env=environment,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr
