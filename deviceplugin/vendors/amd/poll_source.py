"""Looks at each GPU once a second: is it there, driven, in KFD, with its device nodes?"""

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin import sysfs
from deviceplugin.events import Emit, WasReset
from deviceplugin.model import Action, DeviceId
from deviceplugin.vendors.amd import ras
from deviceplugin.vendors.amd.health import Gpu, Health
from deviceplugin.vendors.amd.kfd import Kfd

logger = logging.getLogger(__name__)

_NOTHING_ANSWERS = b"\xff\xff"
"""What a read of the vendor's id gives when no device answers on the bus."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """Something found wrong with a GPU, or with one of its partitions."""

    device: DeviceId
    kind: str
    detail: str
    action: Action = Action.RECOVER


@dataclass(slots=True, kw_only=True)
class PollSource:
    """A ``Source``. The driver as a whole being away judges no GPU, nor does a change under way."""

    sysfs: Path
    devfs: Path
    health: Health
    name: str = "amd-poll"
    _kfd: Kfd = field(init=False)
    _rounds: int = 0
    _reloads: int = 0
    _counted_at: float = float("-inf")
    _paged_at: float = float("-inf")
    _counters: dict[str, ras.Counters] = field(default_factory=dict)
    _resets: dict[str, int] = field(default_factory=dict)
    _pages: dict[str, int] = field(default_factory=dict)
    _doubted: frozenset[tuple[DeviceId, str]] = frozenset()
    _in_kfd: frozenset[str] = frozenset()
    _in_dri: frozenset[str] | None = None

    def __post_init__(self) -> None:
        self._kfd = Kfd(sysfs=self.sysfs)

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Poll until ``stop`` is set, never more often than the timing says."""
        while not stop.is_set():
            began = self.health.clock()
            self._round(emit)
            # From start to start, so that a slow round does not stretch the time to notice.
            spent = self.health.clock() - began
            # The first look after a scan is what counters are compared with: it comes soon.
            pause = self.health.timing.poll / (10 if self.health.why_away else 1)
            stop.wait(max(pause - spent, self.health.timing.poll / 10))

    def _round(self, emit: Emit) -> None:
        health = self.health
        if health.why_away or self._kfd.generation() != health.generation:
            self._doubted = frozenset()
            return
        gpus = tuple(health.gpus.values())
        self._note_reload(emit)
        self._read_counters(gpus, emit)
        # Two folders listed instead of a look at each of 64 partitions, each second.
        self._in_kfd = frozenset(sysfs.entries(self._kfd.root / "nodes"))
        dri = self.devfs / "dri"
        self._in_dri = frozenset(sysfs.entries(dri)) if dri.is_dir() else None
        found = {gpu.address: tuple(self._wrong(gpu)) for gpu in gpus}
        if self._kfd.generation() != health.generation:
            self._doubted = frozenset()
            return  # it changed while we looked: what is missing may have gone on purpose
        doubted = {(each.device, each.kind) for wrong in found.values() for each in wrong}
        for gpu in gpus:
            self._judge(gpu, found[gpu.address], emit)
        self._doubted = frozenset(doubted)
        self._rounds += 1

    def _note_reload(self, emit: Emit) -> None:
        if self._reloads != self.health.reloads:
            self._reloads = self.health.reloads
            logger.info("the driver was loaded anew; faults that waited for a reset are over")
            self._counters.clear()
            self._doubted = frozenset()
            self.health.reset(None, emit)

    def _judge(self, gpu: Gpu, wrong: tuple[Wrong, ...], emit: Emit) -> None:
        for each in wrong:
            # What is not there may be on its way out with the driver as a whole, or with a
            # repartition that the next scan will see: one look is not enough.
            if each.action is not Action.RECOVER or (each.device, each.kind) in self._doubted:
                self.health.symptom(each.device, each.kind, each.detail, each.action, emit)
        bad = {each.device for each in wrong}
        say = self._rounds % self.health.timing.calm_rounds == 0
        if gpu.id not in bad:
            self.health.good(gpu.id, emit, say=say)
        for device in gpu.renders:
            if device != gpu.id and device not in bad:
                self.health.good(device, emit, say=False)

    def _wrong(self, gpu: Gpu) -> Iterator[Wrong]:
        folder = self.sysfs / "bus/pci/devices" / gpu.address
        missing = self._is_away(gpu, folder)
        if missing:
            yield missing
            return
        yield from self._no_nodes(gpu)
        counters = self._counters.get(gpu.address, ras.Counters())
        for block, count in counters.above(self.health.flags.uncorrectable_errors):
            detail = f"{count} new uncorrectable errors in {block}; reset the GPU or the node"
            yield Wrong(device=gpu.id, kind=f"ras-{block}", detail=detail, action=Action.RESET)
        limit, pages = self.health.flags.retired_pages, self._pages.get(gpu.address, 0)
        if limit and pages >= limit:
            detail = f"{pages} memory pages are retired, the config allows {limit - 1}"
            # Retired pages stay so over a reset: only a board with fewer of them is better.
            yield Wrong(device=gpu.id, kind="retired-pages", detail=detail)

    def _is_away(self, gpu: Gpu, folder: Path) -> Wrong | None:
        if not folder.exists():
            detail = f"the PCI bus shows no device at {gpu.address} any more"
            return Wrong(device=gpu.id, kind="lost", detail=detail)
        driver = _driver(folder)
        if driver != "amdgpu":
            by = f"driver {driver}" if driver else "no driver"
            detail = f"{gpu.address} has {by}; bind it to amdgpu again"
            return Wrong(device=gpu.id, kind="driver-unbound", detail=detail)
        if _is_unreachable(folder):
            detail = f"{gpu.address} does not answer on the PCI bus; reset the slot or the node"
            return Wrong(device=gpu.id, kind="bus-unreachable", detail=detail)
        return None

    def _no_nodes(self, gpu: Gpu) -> Iterator[Wrong]:
        gone = [node for node in gpu.nodes if node not in self._in_kfd]
        if gone:
            detail = f"KFD node {', '.join(gone)} of {gpu.address} is gone; see the kernel's log"
            yield Wrong(device=gpu.id, kind="kfd-node-missing", detail=detail)
        if self._in_dri is None:
            return  # the host's nodes are not in our sight
        for device, render in gpu.renders.items():
            if f"renderD{render}" not in self._in_dri:
                detail = f"/dev/dri/renderD{render} is missing"
                yield Wrong(device=device, kind="render-node-missing", detail=detail)

    def _read_counters(self, gpus: tuple[Gpu, ...], emit: Emit) -> None:
        now, timing = self.health.clock(), self.health.timing
        is_due = now - self._counted_at >= timing.counters
        for gpu in gpus:
            # A new one at once: what is counted until the first look is not held against it.
            if is_due or gpu.address not in self._counters:
                self._count(gpu, emit)
        if is_due:
            self._counted_at = now
        if self.health.flags.retired_pages and now - self._paged_at >= timing.pages:
            self._paged_at = now
            self._pages = {gpu.address: ras.retired(self._device(gpu)) for gpu in gpus}

    def _count(self, gpu: Gpu, emit: Emit) -> None:
        first = gpu.address not in self._counters
        counters = self._counters.setdefault(gpu.address, ras.Counters())
        if counters.take(ras.uncorrectable(self._device(gpu))):
            self.health.reset(gpu.address, emit)
        resets = self.health.resets.get(gpu.address, 0)
        if resets != self._resets.get(gpu.address, 0):
            self._resets[gpu.address] = resets
            counters.forgive()
        if first:
            # The GPU was reset while nobody looked, if a fault of before is counted no more.
            for block, count in counters.last.items():
                if count == 0:
                    at, kind = self.health.clock(), f"ras-{block}"
                    emit(WasReset(device=gpu.id, at=at, witness=kind))

    def _device(self, gpu: Gpu) -> Path:
        return self.sysfs / "bus/pci/devices" / gpu.address


def _driver(folder: Path) -> str:
    try:
        return (folder / "driver").readlink().name
    except OSError:
        return ""


def _is_unreachable(folder: Path) -> bool:
    if sysfs.text(folder / "power/runtime_status") == "suspended":
        return False  # a look would wake it
    try:
        with (folder / "config").open("rb") as config:
            return config.read(len(_NOTHING_ANSWERS)) == _NOTHING_ANSWERS
    except OSError:
        return False
