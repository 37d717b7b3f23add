"""From settings to a running daemon: log, probes, signals, backend, then the loop.

The HTTP server comes before the heavy imports, so that probes are answered from the
first tenths of a second on.
"""

import argparse
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from deviceplugin import backend as backends
from deviceplugin import logs
from deviceplugin.config.settings import RunSettings, run_settings, unread
from deviceplugin.observe.http import HttpServer
from deviceplugin.observe.status import Status
from deviceplugin.published import Published

logger = logging.getLogger(__name__)

SWITCH_INTERVAL = 0.0005
"""Seconds: a thread that plans gives way to one that answers the kubelet after so long. With
Python's own 5 ms an Allocate could wait that long at each of its thread changes."""

WARM_AFTER = 3.0
"""Seconds from the first registration to the load of the metrics library. A restarted kubelet
admits its pods just then, and an import would keep the interpreter from answering."""


def run(arguments: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """``deviceplugin run VENDOR``: serve until a signal.

    Raises:
        SettingsError: a flag or variable cannot be used.
        UnknownVendorError: there is no such vendor.
        DevicePluginError: the simulated machine cannot be read.

    """
    backends.require(arguments.vendor)
    settings = run_settings(arguments, environment, arguments.vendor)
    logs.configure(settings.log_format, settings.log_level)
    for name in unread(environment):
        logger.warning(
            "this variable has no effect, no flag has its name", extra={"variable": name}
        )
    sys.setswitchinterval(SWITCH_INTERVAL)
    status = Published(Status(vendor=settings.vendor, simulated=settings.simulate))
    serving = _Serving()
    http = HttpServer(settings.metrics_address, status, serving.alive)
    # Before all that takes time: the first process of a container is deaf to a signal that
    # it has no handler for.
    with _stop_on_signals(serving):
        http.start()
        serving.warm = http.warm
        try:
            with _trees_of(settings) as folder:
                return _serve(settings, environment, status, serving, Path(folder))
        finally:
            http.stop()


@dataclass(slots=True)
class _Serving:
    """What the HTTP server, the signals and the daemon, which comes later, need of each other."""

    stop: threading.Event = field(default_factory=threading.Event)
    wake: Callable[[], None] = lambda: None
    check: Callable[[], str] = lambda: ""
    warm: Callable[[], None] = lambda: None
    _warmed: bool = False

    def alive(self) -> str:
        """Ask the daemon's own sockets; "" while there is no daemon to ask."""
        return self.check()

    def registered(self) -> None:
        """Load the metrics library some time after the first registration."""
        if not self._warmed:
            self._warmed = True
            timer = threading.Timer(WARM_AFTER, self.warm)
            timer.daemon = True
            timer.start()


def _serve(
    settings: RunSettings,
    environment: Mapping[str, str],
    status: Published[Status],
    serving: _Serving,
    folder: Path,
) -> int:
    # Imported late: config and watching cost a third of a second (see the module's text).
    from deviceplugin.daemon import Daemon  # noqa: PLC0415

    backend = backends.load(settings.vendor).create(_options(settings, folder))
    daemon = Daemon(settings, backend, status, environment, on_registered=serving.registered)
    serving.check = daemon.self_check
    serving.wake = daemon.wake
    logger.info(
        "starting",
        extra={
            "vendor": settings.vendor,
            "pid": os.getpid(),
            "simulated": settings.simulate or "no",
        },
    )
    daemon.run(serving.stop)
    logger.info("stopped")
    return 0


def _trees_of(settings: RunSettings) -> AbstractContextManager[str]:
    """Make a folder for a simulated machine's trees.

    On hardware nothing is written anywhere but in the state and plugin folders: a container's
    root is read-only.
    """
    if settings.simulate:
        return tempfile.TemporaryDirectory(prefix="deviceplugin-")
    return nullcontext("")


def _options(settings: RunSettings, folder: Path) -> backends.BackendOptions:
    if not settings.simulate:
        return backends.BackendOptions(
            sysfs=settings.sysfs,
            devfs=settings.devfs,
            procfs=settings.procfs,
            driver_root=settings.driver_root,
            library=settings.nvml_library,
            poll_seconds=settings.timings.health_poll,
            rescan_seconds=settings.timings.rescan,
        )
    # The real daemon on a real node does not load simulation code.
    from deviceplugin.simulation import driver  # noqa: PLC0415

    return driver.prepare(
        settings.simulate,
        folder,
        vendor=settings.vendor,
        poll_seconds=settings.timings.health_poll,
        rescan_seconds=settings.timings.rescan,
        control=settings.simulate_control,
    )


@contextmanager
def _stop_on_signals(serving: _Serving) -> Iterator[None]:
    """First SIGTERM or SIGINT asks for an orderly end, the second ends the process at once."""

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if serving.stop.is_set():
            sys.stderr.write("deviceplugin: second signal, ending at once\n")
            os._exit(128 + number)
        serving.stop.set()
        serving.wake()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, on_signal) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def check(arguments: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """``deviceplugin check VENDOR FILE``; returns 1 when the config is invalid."""
    from deviceplugin import check as checking  # noqa: PLC0415

    settings = run_settings(arguments, environment, arguments.vendor)
    logs.configure("text", "warning")  # the report says what there is to say
    with _trees_of(settings) as folder:
        backend = backends.load(settings.vendor).create(_options(settings, Path(folder)))
        return checking.run(settings, Path(arguments.file), backend, environment, sys.stdout)
