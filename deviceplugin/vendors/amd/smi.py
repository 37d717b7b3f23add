"""What AMD's management library adds, where it is installed: opt-in, in a child process.

It is asked only where sysfs shows what it needs: without links between KFD's nodes some
versions crash, and without a card some never return.
"""

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deviceplugin import probe, sysfs
from deviceplugin.events import Emit
from deviceplugin.model import Action, DeviceId
from deviceplugin.vendors.amd import ras
from deviceplugin.vendors.amd.health import Health
from deviceplugin.vendors.amd.kfd import Kfd

logger = logging.getLogger(__name__)

TARGET = "deviceplugin.vendors.amd.smi_child:counters"
_BLOCK = "total"
_LIBRARY = "amdsmi"


@dataclass(slots=True, kw_only=True)
class SmiSource:
    """A ``Source``: errors and pages of GPUs whose sysfs shows none of its own."""

    sysfs: Path
    health: Health
    target: str = TARGET
    name: str = "amd-smi"
    _counters: dict[str, ras.Counters] = field(default_factory=dict)
    _resets: dict[str, int] = field(default_factory=dict)
    _said: str = ""

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Ask every so often until ``stop`` is set, while the config wants it."""
        while not stop.is_set():
            if self.health.flags.amdsmi:
                self._round(emit)
            else:
                self.health.condemned.pop(_LIBRARY, None)
            self._pause(stop)

    def _pause(self, stop: threading.Event) -> None:
        """Wait for the next time, or until the config changes its mind."""
        asked = self.health.flags.amdsmi
        until = self.health.clock() + self.health.timing.library
        while not stop.is_set() and self.health.clock() < until:
            if self.health.flags.amdsmi != asked:
                return
            stop.wait(self.health.timing.wait)

    def _round(self, emit: Emit) -> None:
        why = self.health.why_away or self._why_not()
        if why:
            self._say(why)
            return
        try:
            rows = probe.call(self.target, timeout=self.health.timing.library_deadline)
        except probe.ProbeFailedError as error:
            self._say(str(error))
            return
        ours = [row for row in _rows(rows) if row.get("address") in self.health.gpus]
        # Without access to /dev/dri some versions give random addresses and call it success.
        self._say("" if ours else "it names none of the GPUs that KFD shows")
        self.health.condemned[_LIBRARY] = frozenset(self._judged(ours, emit))

    def _why_not(self) -> str:
        nodes = Kfd(sysfs=self.sysfs).root / "nodes"
        gpus = [gpu for gpu in self.health.gpus.values() if gpu.nodes]
        if not gpus:
            return "KFD shows no GPU to this process"
        for gpu in gpus:
            for node in gpu.nodes:
                if not sysfs.entries(nodes / node / "io_links"):
                    return f"KFD node {node} has no links, and the library may crash of that"
        return ""

    def _judged(self, rows: list[dict[str, Any]], emit: Emit) -> Iterator[DeviceId]:
        for row in rows:
            address = str(row["address"])
            for kind, detail, action in self._wrong(address, row):
                device = DeviceId(address)
                self.health.symptom(device, kind, detail, action, emit)
                yield device

    def _wrong(self, address: str, row: dict[str, Any]) -> Iterator[tuple[str, str, Action]]:
        device = self.sysfs / "bus/pci/devices" / address
        flags = self.health.flags
        errors, pages = row.get("uncorrectable"), row.get("pages", 0)
        if isinstance(errors, int) and not ras.uncorrectable(device):
            counters = self._counters.setdefault(address, ras.Counters())
            counters.take({_BLOCK: errors})
            resets = self.health.resets.get(address, 0)
            if resets != self._resets.get(address, 0):
                self._resets[address] = resets
                counters.forgive()
            for block, count in counters.above(flags.uncorrectable_errors):
                detail = f"{count} new uncorrectable errors by amdsmi; reset the GPU or the node"
                yield f"ras-{block}", detail, Action.RESET
        if flags.retired_pages and pages >= flags.retired_pages and not ras.retired(device):
            yield "retired-pages", f"{pages} memory pages are retired by amdsmi", Action.RECOVER

    def _say(self, why: str) -> None:
        if why != self._said:
            self._said = why
            if why:
                logger.info("AMD's management library is of no use here", extra={"why": why})
            else:
                logger.info("AMD's management library answers")


def _rows(answer: Any) -> list[dict[str, Any]]:
    return [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
