"""``deviceplugin simulate``: a whole node in one go, and what happens on it.

The kubelet and the demo pods are threads here; the daemons are the real ones, a process for
each vendor over its simulated driver. Threads put facts into a queue; the loop alone tells them.
"""

import io
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from rich.console import Console

from deviceplugin.observe.listener import parse_address
from deviceplugin.simulation.config_edits import ConfigEdits
from deviceplugin.simulation.daemon_process import DaemonProcess
from deviceplugin.simulation.demo_pods import DemoPods
from deviceplugin.simulation.facts import (
    Edited,
    Exited,
    Fact,
    Happening,
    LogLine,
    PodAdmitted,
    Scraped,
)
from deviceplugin.simulation.folders import Folders, folders
from deviceplugin.simulation.kubelet import Change, SimulatedKubelet
from deviceplugin.simulation.lines import LineReporter
from deviceplugin.simulation.live import LiveReporter
from deviceplugin.simulation.machine import Machine
from deviceplugin.simulation.names import Names
from deviceplugin.simulation.narrator import Narrator
from deviceplugin.simulation.reporter import Reporter
from deviceplugin.simulation.scrape import Scraper
from deviceplugin.simulation.standing import Standing
from deviceplugin.simulation.view import Memory, NodeView, look

ERA = "1.37"
UNWATCHED_SECONDS = 60.0
"""Without a terminal nobody is there to end it."""

_TURN = 0.25  # seconds the loop waits for a fact before it looks at the clock


def run(
    *,
    machine: str,
    seconds: float | None,
    as_json: bool,
    config_dir: str | None,
    metrics_address: str,
) -> int:
    """Simulate a node until a signal, or for ``seconds``; returns the exit code.

    Raises:
        DevicePluginError: the machine, the config folder or the address cannot be used.

    """
    if metrics_address:
        parse_address(metrics_address)
    if seconds is None and not sys.stdout.isatty():
        seconds = UNWATCHED_SECONDS
    with folders(machine, config_dir) as (made, hardware):
        node = Node(made, hardware, _reporter(as_json=as_json), metrics_address)
        try:
            return node.run(seconds)
        except BrokenPipeError:  # `simulate | head`: whoever listened has heard enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


def _reporter(*, as_json: bool) -> Reporter:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # An arrow that the locale cannot write must not end the node.
        sys.stdout.reconfigure(errors="replace")
    console = Console()
    if as_json or not console.is_terminal or console.is_dumb_terminal:
        return LineReporter(sys.stdout, json_lines=as_json)
    return LiveReporter(console)


class Node:
    """One simulated node; nothing runs before ``run``."""

    def __init__(
        self, made: Folders, machine: Machine, reporter: Reporter, metrics_address: str
    ) -> None:
        self._made = made
        self._machine = machine
        self._reporter = reporter
        self._host, _ = parse_address(metrics_address) if metrics_address else ("", 0)
        self._facts: queue.SimpleQueue[Fact | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._kubelet = SimulatedKubelet(made.kubelet, era=ERA, on_change=self._facts.put)
        addresses = _addresses(machine.vendors, metrics_address)
        self._daemons = {
            vendor: DaemonProcess(
                _command(made, vendor, addresses[vendor]), self._facts.put, vendor
            )
            for vendor in machine.vendors
        }
        self._scrapers = {vendor: Scraper(self._facts.put, vendor) for vendor in machine.vendors}
        self._names = Names.of(machine)
        self._narrator = Narrator(names=self._names, vendors=machine.vendors)
        self._memory = Memory(began=time.monotonic())

    def run(self, seconds: float | None) -> int:
        """Run until a signal, for so long, or until the daemon ends; returns the exit code."""
        with _until_signal(self._ask_to_stop), self._running():
            code = self._loop(seconds)
        elapsed = time.monotonic() - self._memory.began
        text = f"ended after {elapsed:.0f} s, everything temporary is removed"
        self._reporter.tell(Happening(event="end", text=text, bad=code != 0, fields={"code": code}))
        return code

    def _ask_to_stop(self) -> None:
        self._stop.set()
        self._facts.put(None)  # only to wake the loop

    @contextmanager
    def _running(self) -> Iterator[None]:
        # The daemons first: they fork, which has to come before there are threads; and so they
        # load their libraries while the kubelet starts.
        for daemon in self._daemons.values():
            daemon.prepare(os.environ)
        for daemon in self._daemons.values():
            daemon.listen()
        try:
            self._reporter.start()
            self._tell(self._introduction())
            self._start_threads()
            self._kubelet.start()
            yield
        finally:
            self._stop.set()
            for daemon in self._daemons.values():
                daemon.terminate()
            for daemon in self._daemons.values():
                daemon.stop()
            self._kubelet.stop()
            self._reporter.stop()

    def _start_threads(self) -> None:
        for vendor, path in self._made.configs.items():
            ConfigEdits(path, self._facts.put, vendor).watch(self._stop)
        pods = DemoPods(self._kubelet, self._machine.demo, self._facts.put)
        scrapers = [(f"scraper-{name}", each.run) for name, each in self._scrapers.items()]
        for name, work in (("demo-pods", pods.run), *scrapers):
            threading.Thread(target=work, args=(self._stop,), name=name, daemon=True).start()

    def _loop(self, seconds: float | None) -> int:
        end = None if seconds is None else self._memory.began + seconds
        while not self._stop.is_set() and (end is None or time.monotonic() < end):
            with suppress(queue.Empty):
                fact = self._facts.get(timeout=_TURN)
                self._take(fact)
                if isinstance(fact, Exited):
                    return 1
            self._reporter.draw(self._look)
        return 0

    def _take(self, fact: Fact | None) -> None:
        if fact is None:
            return
        if isinstance(fact, Edited | LogLine):
            self._memory.standing.setdefault(fact.vendor, Standing()).take(fact)
        match fact:
            case Scraped():
                self._memory.scraped[fact.vendor] = fact
            case PodAdmitted(admission=admission):
                self._memory.admission(admission.seconds * 1000)
            case Change():
                for scraper in self._scrapers.values():
                    scraper.ask()
            case LogLine(message="serving metrics and probes"):
                address = self._daemon_address(fact)
                self._memory.metrics[fact.vendor] = address
                self._scrapers[fact.vendor].address = address
            case _:
                pass
        for happening in self._narrator.tell(fact):
            self._tell(happening)
        self._memory.edit = self._narrator.list_ms

    def _tell(self, happening: Happening) -> None:
        self._memory.happenings.append(happening)
        self._reporter.tell(happening)

    def _daemon_address(self, line: LogLine) -> str:
        host = self._host
        reachable = "127.0.0.1" if host in ("", "0.0.0.0") else host  # noqa: S104 - compared, not bound
        return f"{reachable}:{line.fields.get('port')}"

    def _look(self) -> NodeView:
        return look(
            self._kubelet,
            self._names,
            self._memory,
            machine=self._machine.name,
            configs=tuple(map(str, self._made.configs.values())),
        )

    def _introduction(self) -> Happening:
        configs = {vendor: str(path) for vendor, path in self._made.configs.items()}
        first = next(iter(configs.values()))
        return Happening(
            event="start",
            text=f"machine {self._machine.name}, kubelet {ERA}; edit"
            f" {' or '.join(configs.values())} and save it (replicas: 4, say), the node follows",
            at=self._memory.began,
            fields={
                "machine": self._machine.name,
                "kubelet": ERA,
                "config": first,
                "configs": configs,
                "plugin_dir": str(self._kubelet.plugin_dir),
                "pod_resources": str(self._kubelet.pod_resources),
            },
        )


def _addresses(vendors: Sequence[str], metrics_address: str) -> Mapping[str, str]:
    """The first daemon has the address that was asked for, the others free ports beside it."""
    if not metrics_address:
        return dict.fromkeys(vendors, "")
    host, _ = parse_address(metrics_address)
    return {
        vendor: f"{host}:0" if place else metrics_address for place, vendor in enumerate(vendors)
    }


def _command(made: Folders, vendor: str, metrics_address: str) -> tuple[str, ...]:
    flags = {
        "simulate": made.machine,
        "plugin-dir": made.kubelet / "device-plugins",
        "pod-resources": made.kubelet / "pod-resources" / "kubelet.sock",
        "state-dir": made.state,
        "config": made.configs[vendor],
        "metrics-address": metrics_address,
        "log-format": "json",
        "log-level": "info",
    }
    pairs = [part for flag, value in flags.items() for part in (f"--{flag}", str(value))]
    return (sys.executable, "-m", "deviceplugin", "run", vendor, *pairs)


@contextmanager
def _until_signal(ask_to_stop: Callable[[], None]) -> Iterator[None]:
    """First SIGINT or SIGTERM: an orderly end. A second finds the handlers of before."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        restore()
        ask_to_stop()

    for number in numbers:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()
