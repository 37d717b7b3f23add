"""RAS counters and retired pages, as the driver shows them in sysfs. Reading, and what it means."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin import sysfs

_FILE = re.compile(r"([a-z0-9_]{1,32})_err_count", re.ASCII)
_UNCORRECTABLE = re.compile(r"ue\s*:\s*([0-9]{1,18})(?![0-9])", re.ASCII)
_PAGE = re.compile(r"0x[0-9a-fA-F]+\s*:\s*0x[0-9a-fA-F]+\s*:\s*[RPF]", re.ASCII)


def uncorrectable(device: Path) -> Mapping[str, int]:
    """Uncorrectable errors by block; blocks whose file says nothing are left out."""
    found = {}
    for name in sysfs.entries(device / "ras"):
        block = _FILE.fullmatch(name)
        count = _UNCORRECTABLE.search(sysfs.text(device / "ras" / name)) if block else None
        if block and count:
            found[block[1]] = int(count[1])
    return found


def retired(device: Path) -> int:
    """Number of memory pages that are retired (R), waiting for it (P), or could not be (F)."""
    lines = sysfs.text(device / "ras/gpu_vram_bad_pages").splitlines()
    return sum(bool(_PAGE.fullmatch(line.strip())) for line in lines)


@dataclass(slots=True, kw_only=True)
class Counters:
    """Counters of one GPU against what they were when it was first seen.

    The kernel counts from the load of the driver or the last reset, so an old error must not
    count again with each restart of ours, and a counter that went down tells of a reset.
    """

    base: dict[str, int] = field(default_factory=dict)
    last: Mapping[str, int] = field(default_factory=dict)

    def take(self, now: Mapping[str, int]) -> bool:
        """Take a reading; returns whether it shows that the GPU was reset since the last."""
        was_reset = any(count < self.last.get(block, 0) for block, count in now.items())
        if was_reset:
            self.base = dict.fromkeys(now, 0)
        for block, count in now.items():
            self.base.setdefault(block, count)
        self.last = now
        return was_reset

    def forgive(self) -> None:
        """Count from here on: the GPU was reset, and its counters may have stayed."""
        self.base = dict(self.last)

    def above(self, threshold: int) -> Iterator[tuple[str, int]]:
        """Blocks with more new errors than ``threshold``, and how many."""
        for block, count in self.last.items():
            new = count - self.base.get(block, count)
            if new > threshold:
                yield block, new
