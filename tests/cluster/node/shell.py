"""Commands of the machine, and waiting."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path


class ClusterError(Exception):
    """Something of the cluster could not be done; the text says what to do."""


class ClusterTimeoutError(ClusterError, TimeoutError):
    """What was waited for did not come."""


def say(text: str) -> None:
    """Tell the person in front of it."""
    sys.stdout.write(f"cluster: {text}\n")
    sys.stdout.flush()


def run(
    *words: str | Path,
    cwd: Path | None = None,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a command to its end; returns what it printed, both streams together.

    Raises:
        ClusterError: it failed, or is not there.

    """
    command = [str(word) for word in words]
    try:
        ended = subprocess.run(
            command,
            cwd=cwd,
            env=env,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise ClusterError(f"{command[0]} is missing: run `make cluster-packages`") from None
    if ended.returncode:
        raise ClusterError(f"`{' '.join(command)}` failed ({ended.returncode}):\n{ended.stdout}")
    return ended.stdout


def succeeds(*words: str | Path) -> bool:
    """Run a command whose failure is an answer."""
    try:
        run(*words)
    except ClusterError:
        return False
    return True


def wait_for(what: str, condition: Callable[[], object], *, seconds: float = 60) -> None:
    """Poll until the condition holds.

    Raises:
        ClusterTimeoutError: it still does not after so many seconds.

    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterTimeoutError(f"gave up after {seconds:.0f} s waiting for {what}")
        time.sleep(0.1)
