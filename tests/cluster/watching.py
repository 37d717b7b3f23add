"""What the node offered over a time, as a scheduler sees it."""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

from tests.cluster.node.cluster import environment
from tests.cluster.node.paths import NODE, program

_ALLOCATABLE = r"jsonpath={.status.allocatable.nvidia\.com/gpu}{'\n'}"


@dataclass(slots=True)
class Offers:
    """Each change of the node's allocatable GPUs: (monotonic seconds, units)."""

    changes: list[tuple[float, int]] = field(default_factory=list)

    def lowest(self) -> int:
        """The fewest units that the node ever offered."""
        return min(units for _, units in self.changes)

    def below(self, units: int) -> float:
        """Seconds for which the node offered fewer units than these."""
        ends = [at for at, _ in self.changes[1:]] + [time.monotonic()]
        spans = zip(self.changes, ends, strict=True)
        return sum(end - at for (at, offered), end in spans if offered < units)

    def dip(self, units: int) -> str:
        """The dip below so many units, in words."""
        if self.lowest() >= units:
            return "none"
        return f"to {self.lowest()} for {self.below(units):.1f} s"


@contextmanager
def offers() -> Iterator[Offers]:
    """Watch the node's allocatable GPUs, from before the block on."""
    command = [str(program("kubectl")), "get", "node", NODE, "--watch", "-o", _ALLOCATABLE]
    watch = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    seen = Offers()
    assert watch.stdout is not None
    _note(watch.stdout.readline(), seen)
    reader = threading.Thread(target=_read, args=(watch.stdout, seen))
    reader.start()
    try:
        yield seen
    finally:
        watch.terminate()
        watch.wait()
        reader.join()
        watch.stdout.close()


def _read(lines: IO[str], seen: Offers) -> None:
    for line in lines:
        _note(line, seen)


def _note(line: str, seen: Offers) -> None:
    units = int(line.strip() or 0)
    if not seen.changes or seen.changes[-1][1] != units:
        seen.changes.append((time.monotonic(), units))
