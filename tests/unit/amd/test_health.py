"""Health of AMD's GPUs by what sysfs shows, look by look, on a clock of our own."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deviceplugin.config.amd_options import AmdFlags
from deviceplugin.events import Event, SeenGood, Symptom, WasReset
from deviceplugin.model import Action, DeviceId
from deviceplugin.simulation.machine import AmdGpu
from deviceplugin.vendors.amd import ras
from deviceplugin.vendors.amd.health import Health, Timing
from deviceplugin.vendors.amd.poll_source import PollSource

MakeNode = Callable[..., Any]
MakeGpu = Callable[..., AmdGpu]

FIRST, SECOND = DeviceId("0000:05:00.0"), DeviceId("0000:15:00.0")


@dataclass
class Rounds:
    """A stop flag that lets a source go round so often, and moves the clock at each wait."""

    left: int
    tick: Callable[[float], None]

    def is_set(self) -> bool:
        """Whether all rounds are over."""
        self.left -= 1
        return self.left < 0

    def wait(self, seconds: float) -> bool:
        """Let time pass."""
        self.tick(seconds)
        return False


@dataclass(kw_only=True)
class Watch:
    """A poll over a node, and what it said."""

    node: Any
    now: float = 1000.0
    events: list[Event] = field(default_factory=list)
    health: Health = field(init=False)
    poll: PollSource = field(init=False)

    def __post_init__(self) -> None:
        """Begin with a scan and a calm look."""
        self.health = Health(timing=Timing(counters=1.0, pages=1.0), clock=lambda: self.now)
        options = self.node.look.options
        self.poll = PollSource(sysfs=options.sysfs, devfs=options.devfs, health=self.health)
        self.scan()
        self.look()

    def scan(self) -> None:
        """Scan, as the scan thread does."""
        self.health.saw(self.node.scan(), self.node.look.generation)

    def look(self, rounds: int = 1) -> "Watch":
        """Look so often; what was said before is forgotten."""
        self.events.clear()
        self.poll.run(self.events.append, Rounds(rounds, self._tick))  # type: ignore[arg-type]  # a flag that counts
        return self

    def _tick(self, seconds: float) -> None:
        self.now += max(seconds, 1.0)

    def wrong(self) -> list[tuple[str, str]]:
        """Symptoms by device and kind."""
        return [(e.device, e.kind) for e in self.events if isinstance(e, Symptom)]

    def good(self) -> set[str]:
        """Devices that were said to be good."""
        return {e.device for e in self.events if isinstance(e, SeenGood)}

    def resets(self) -> list[str | None]:
        """Resets that were seen."""
        return [e.device for e in self.events if isinstance(e, WasReset) and not e.witness]


@pytest.fixture
def watch(make_node: MakeNode, make_gpu: MakeGpu) -> Watch:
    """One GPU in halves and a whole one."""
    return Watch(node=make_node(make_gpu(0, "DPX/NPS1"), make_gpu(1)))


def test_calm(watch: Watch) -> None:
    """With nothing wrong a GPU is said to be good now and then, not at each look."""
    watch.look(20)
    assert watch.wrong() == []
    goods = [event for event in watch.events if isinstance(event, SeenGood)]
    assert len(goods) == 4


def _unbind(node: Any) -> None:
    (node.pci(0) / "driver").unlink()


def _rebind(node: Any) -> None:
    (node.pci(0) / "driver").symlink_to("../../../../bus/pci/drivers/vfio-pci")


def _off_the_bus(node: Any) -> None:
    (node.pci(0) / "config").write_bytes(b"\xff" * 64)


FAULTS = {
    "lost": lambda node: node.pci(0).unlink(),
    "driver-unbound": _unbind,
    "bus-unreachable": _off_the_bus,
    "kfd-node-missing": lambda node: shutil.rmtree(node.kfd / "2"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_of_a_gpu(watch: Watch, kind: str) -> None:
    """Each is a symptom of the GPU, with words on what to look at; its neighbour is good."""
    FAULTS[kind](watch.node)
    assert watch.look().wrong() == []
    assert FIRST not in watch.good()
    watch.look()
    assert watch.wrong() == [(FIRST, kind)]
    (symptom,) = (event for event in watch.events if isinstance(event, Symptom))
    assert symptom.action is Action.RECOVER
    assert "0000:05:00.0" in symptom.detail
    assert FIRST not in watch.good()


def test_another_driver_is_named(watch: Watch) -> None:
    """A GPU that was given to a guest says to whom."""
    _unbind(watch.node)
    _rebind(watch.node)
    watch.look(2)
    assert "vfio-pci" in str(watch.events)


def test_a_gpu_asleep_is_not_woken(watch: Watch) -> None:
    """A suspended GPU answers no config read, and is not read."""
    _off_the_bus(watch.node)
    power = watch.node.pci(0) / "power"
    power.mkdir()
    (power / "runtime_status").write_text("suspended\n")
    assert watch.look().wrong() == []


def test_a_render_node_is_its_partitions(watch: Watch) -> None:
    """A partition whose node is gone is ill alone, and suspect until it is seen good."""
    node = watch.node.root / "dev/dri/renderD129"
    node.unlink()
    assert watch.look(2).wrong() == [("0000:05:00.0-p1", "render-node-missing")]
    node.touch()
    assert watch.look().wrong() == []
    assert "0000:05:00.0-p1" in watch.good()


def test_an_empty_folder_of_render_nodes(watch: Watch) -> None:
    """All of them gone is as bad as each; no folder at all is one that we do not see."""
    dri = watch.node.root / "dev/dri"
    for path in dri.iterdir():
        path.unlink()
    assert len(set(watch.look(2).wrong())) == 3
    dri.rmdir()
    assert watch.look(2).wrong() == []


def test_a_lost_gpu_stays_watched(watch: Watch) -> None:
    """A scan that does not find it does not end its symptoms while the bus shows it."""
    shutil.rmtree(watch.node.kfd / "4")
    watch.scan()
    assert (SECOND, "kfd-node-missing") in watch.look(2).wrong()
    (watch.node.pci(1)).unlink()
    watch.scan()
    assert SECOND not in {device for device, _ in watch.look(2).wrong()}


def test_a_driver_that_is_away_judges_no_gpu(watch: Watch) -> None:
    """Unloaded, nothing is said of any GPU; back again, all of them are as after a reset."""
    watch.node.tree.unload()
    watch.health.away("not loaded")
    assert watch.look(3).events == []
    watch.node.tree.load()
    watch.scan()
    assert watch.look().resets() == [None]
    assert watch.wrong() == []


def test_a_driver_on_its_way_out_judges_no_gpu(watch: Watch) -> None:
    """Nodes that go before the rest of the driver does are no fault of their GPUs."""
    for path in watch.node.kfd.iterdir():
        shutil.rmtree(path)
    assert watch.look().wrong() == []
    watch.health.away("not loaded")
    watch.look()
    assert watch.events == []


def test_errors_right_after_a_reload_count(watch: Watch) -> None:
    """The counters of a driver that is back are read at once: the next error is a new one."""
    watch.health.timing = replace(watch.health.timing, counters=60.0)
    watch.node.tree.unload()
    watch.health.away("not loaded")
    watch.look()
    watch.node.tree.load()
    watch.scan()
    watch.look()
    count(watch, "gfx", 1)
    assert set(watch.look(70).wrong()) == {(FIRST, "ras-gfx")}


def test_a_change_under_way_judges_no_gpu(watch: Watch) -> None:
    """Between a repartition and the scan that sees it, missing nodes are no fault."""
    watch.node.tree.repartition(0, "SPX", "NPS1")
    assert watch.look(3).events == []
    watch.scan()
    assert watch.look(10).wrong() == []


def count(watch: Watch, block: str, errors: int) -> None:
    """Let the first GPU have counted so many errors."""
    watch.node.tree.errors(0, block, errors)


def test_memory_errors_by_their_delta(make_node: MakeNode, make_gpu: MakeGpu) -> None:
    """What was counted before us is no fault; one more is, until the counter starts anew."""
    node = make_node(make_gpu(0), make_gpu(1))
    node.tree.errors(0, "umc", 5)
    watch = Watch(node=node)
    assert watch.look(3).wrong() == []
    count(watch, "umc", 6)
    assert set(watch.look(3).wrong()) == {(FIRST, "ras-umc")}
    assert {e.action for e in watch.events if isinstance(e, Symptom)} == {Action.RESET}
    assert FIRST not in watch.good()
    count(watch, "umc", 0)
    watch.look(2)
    assert watch.resets() == [FIRST]
    assert watch.wrong() == []


def test_the_threshold_is_the_configs(watch: Watch) -> None:
    """Up to the number that the config allows nothing happens, and it may be edited."""
    watch.health.configure(AmdFlags(uncorrectable_errors=2))
    count(watch, "gfx", 2)
    assert watch.look(2).wrong() == []
    watch.health.configure(AmdFlags(uncorrectable_errors=1))
    assert set(watch.look().wrong()) == {(FIRST, "ras-gfx")}


def test_a_reset_told_by_others_forgives(watch: Watch) -> None:
    """Counters that outlive a reset do not make the GPU ill again."""
    count(watch, "umc", 1)
    assert watch.look(2).wrong()
    watch.health.reset(FIRST, watch.events.append)
    watch.look()
    assert watch.look(3).wrong() == []
    count(watch, "umc", 2)
    assert watch.look(2).wrong()


def test_clean_counters_tell_of_a_reset_unseen(watch: Watch) -> None:
    """At the first look a block without errors is a witness, which counts where it was ill."""
    fresh = Watch(node=watch.node)
    fresh.poll = PollSource(
        sysfs=watch.node.look.options.sysfs,
        devfs=watch.node.look.options.devfs,
        health=fresh.health,
    )
    fresh.look()
    witnesses = {e.witness for e in fresh.events if isinstance(e, WasReset)}
    assert "ras-umc" in witnesses


def test_retired_pages(watch: Watch) -> None:
    """Off by default; with a limit the GPU is ill from that number on."""
    lines = "0x1000 : 0x1000 : R\n0x2000 : 0x1000 : P\nrubbish\n\x00\n0x3000 : 0x1000 : F\n"
    (watch.node.pci(0) / "ras/gpu_vram_bad_pages").write_text(lines)
    assert watch.look(2).wrong() == []
    watch.health.configure(AmdFlags(retired_pages=4))
    assert watch.look(3).wrong() == []
    watch.health.configure(AmdFlags(retired_pages=3))
    assert set(watch.look(3).wrong()) == {(FIRST, "retired-pages")}


def test_condemned_by_another(watch: Watch) -> None:
    """What another source holds to be bad, no look of ours calls good."""
    watch.health.symptom(FIRST, "exporter-unhealthy", "", Action.RECOVER, watch.events.append)
    watch.health.condemned["exporter"] = frozenset({FIRST})
    assert FIRST not in watch.look(12).good()
    watch.health.condemned.clear()
    assert FIRST in watch.look().good()


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("ue: 3\nce: 0", {"umc": 3}),
        ("ce: 5\nue: 1\nde: 0\n", {"umc": 1}),
        ("ue:7", {"umc": 7}),
        ("ue: -1", {}),
        ("", {}),
        ("\x00\xff junk", {}),
        ("ue: 99999999999999999999999", {}),
    ],
)
def test_counter_files(watch: Watch, text: str, errors: dict[str, int]) -> None:
    """Old and new forms are read; junk is no number."""
    folder = watch.node.pci(0) / "ras"
    for path in list(folder.iterdir()):
        path.unlink()
    (folder / "umc_err_count").write_text(text)
    assert ras.uncorrectable(watch.node.pci(0)) == errors


def test_the_scan_keeps_the_bus(watch: Watch) -> None:
    """A bus that cannot be read takes no GPU out of sight."""
    scan = watch.node.scan()
    watch.health.saw(replace(scan, devices=(), bus=None), watch.node.look.generation)
    assert set(watch.health.gpus) == {FIRST, SECOND}
    assert os.path.exists(watch.node.pci(0))  # noqa: PTH110 - a link's target
