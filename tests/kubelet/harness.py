"""A client of the harness: the real device manager behind lines of JSON."""

import itertools
import json
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.kubelet.node import KubeletDiedError

Reply = Mapping[str, Any]

_DIED: Reply = {"ok": False, "died": True, "error": "the harness died"}


class HarnessError(Exception):
    """A command that the harness could not carry out."""


class Harness:
    """One process of the harness. Its folder outlives it.

    Attributes:
        root: stands for /var/lib/kubelet; only this process sees it there.
        log: what the kubelet's own code logs.

    """

    def __init__(self, program: Sequence[str], root: Path) -> None:
        """Start it with this command line."""
        self.root = root
        self.log = root / "kubelet.log"
        self._ids = itertools.count(1)
        self._waiting: dict[int, queue.Queue[Reply]] = {}
        self._dead = False
        self._lock = threading.Lock()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*program, "-root", root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        self._reader = threading.Thread(target=self._read, name="harness-replies")
        self._reader.start()

    def ask(self, command: str, *, seconds: float = 60, **fields: object) -> Reply:
        """Carry out a command.

        Raises:
            KubeletDiedError: the process ended meanwhile, or before.
            HarnessError: the harness answers with an error.
            queue.Empty: no answer within so many seconds.

        """
        return self.checked(self.begin(command, **fields).get(timeout=seconds))

    def begin(self, command: str, **fields: object) -> "queue.Queue[Reply]":
        """Send a command; the answer comes into the queue."""
        answer: queue.Queue[Reply] = queue.Queue()
        with self._lock:
            if self._dead:
                answer.put(_DIED)
                return answer
            number = next(self._ids)
            self._waiting[number] = answer
            self._send({"cmd": command, "id": number, **fields})
        return answer

    def checked(self, reply: Reply) -> Reply:
        """Return the reply when it is none of an error.

        Raises:
            KubeletDiedError: the process ended.
            HarnessError: the command failed.

        """
        if reply.get("died"):
            raise KubeletDiedError(self.panic())
        if not reply["ok"] and "reached" not in reply:
            raise HarnessError(reply["error"])
        return reply

    def panic(self) -> str:
        """What the process died of, with the innermost frames of Kubernetes' own code."""
        lines = self.log.read_text(errors="replace").splitlines()
        at = next((n for n, line in enumerate(lines) if line.startswith("panic:")), None)
        if at is None:
            return "no panic in its log"
        frames = [line.rsplit("/", 1)[-1] for line in lines[at:] if line.startswith("k8s.io/kub")]
        return "\n".join([lines[at], *frames[:3]])

    def close(self) -> None:
        """End the process, and wait for it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _send(self, command: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # the reader sees the end, and answers

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            reply = json.loads(line)
            with self._lock:
                answer = self._waiting.pop(reply.get("id"), None)
            if answer is not None:
                answer.put(reply)
        with self._lock:
            self._dead = True
            left, self._waiting = self._waiting, {}
        for answer in left.values():
            answer.put(_DIED)
