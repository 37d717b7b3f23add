"""Runs a function in a fresh process with a deadline: its library may hang or crash there.

The child is an interpreter of its own that imports only what it is asked for, so a
crash in a C library costs that child, and no lock or thread of ours is copied into it.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from deviceplugin.errors import DevicePluginError

_SHOWN = 400  # characters of the child's own words in a message


class ProbeFailedError(DevicePluginError):
    """The child gave no answer; the message says whether it hung, died or raised."""


def call(target: str, args: Sequence[Any] = (), timeout: float = 10.0) -> Any:
    """Call ``"module:function"`` in a child process and return what it returned.

    Args:
        target: module and function, importable by a fresh interpreter.
        args: positional arguments, anything that JSON can carry.
        timeout: seconds for the whole call, imports included.

    Raises:
        ProbeFailedError: no answer in time, the child died, or the function raised.

    """
    child = _spawn()
    request = json.dumps({"target": target, "args": list(args), "path": sys.path})
    try:
        answer, words = child.communicate(request, timeout)
    except subprocess.TimeoutExpired as error:
        _end(child)
        raise ProbeFailedError(
            f"{target} gave no answer within {timeout:g} s; its process was ended"
        ) from error
    return _result(target, child.returncode, answer, words)


def _spawn() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "deviceplugin.probe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _end(child: subprocess.Popen[str]) -> None:
    # The whole session: a library may have started helpers that hold our pipes.
    os.killpg(child.pid, signal.SIGKILL)
    try:
        child.communicate(timeout=1.0)
    except subprocess.TimeoutExpired:
        # Stuck inside the kernel: it dies when the driver lets it go, and nobody waits.
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe:
                pipe.close()


def _result(target: str, status: int, answer: str, words: str) -> Any:
    said = f"; it said: {words.strip()[-_SHOWN:]}" if words.strip() else ""
    if status < 0:
        raise ProbeFailedError(f"{target} died from {signal.Signals(-status).name}{said}")
    if status > 0 or not answer:
        raise ProbeFailedError(f"{target} ended with status {status} and no answer{said}")
    reply = json.loads(answer)
    if "raised" in reply:
        raise ProbeFailedError(f"{target} raised {reply['raised']}")
    return reply["returned"]


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    sys.path[:] = request["path"]
    module, _, function = request["target"].partition(":")
    try:
        returned = getattr(importlib.import_module(module), function)(*request["args"])
        json.dumps(returned)
    except Exception as error:  # noqa: BLE001 - the edge of the process: all of it is the answer
        return {"raised": f"{type(error).__name__}: {error}"}
    return {"returned": returned}


def main() -> None:
    """Serve one request: JSON on standard input, JSON on standard output."""
    with os.fdopen(os.dup(1), "w") as answers:
        # Whatever the library prints must not end up between the braces of our answer.
        os.dup2(2, 1)
        json.dump(_answer(json.load(sys.stdin)), answers)


if __name__ == "__main__":
    main()
