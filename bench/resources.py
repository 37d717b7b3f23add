"""What the daemon costs: memory, idle CPU, and whether it grows."""

import time
from collections.abc import Callable, Iterable

from bench.figures import Effort, Figure
from bench.node import GPU, GPUS, Node
from bench.process import Process, until
from deviceplugin.simulation.kubelet import Pod

_SETTLE = 2.0
"""Seconds after the first list: late imports and first polls are over."""


def memory(effort: Effort) -> Iterable[Figure]:
    """Serving eight GPUs, with pods and a scrape behind it; and a node without hardware."""
    with Node() as node:
        for number in range(GPUS):
            node.kubelet.admit(Pod.asking(f"pod-{number}", **{GPU: 1}))
        node.daemon.get("/metrics")
        time.sleep(_SETTLE)
        yield Figure(
            name="resident memory, serving, with metrics",
            unit="MB",
            values=_sampled(node.daemon.resident_mb, effort),
            target=70,
            note="simulated driver included",
        )
    with Node(machine="", start=False) as node:
        daemon = node.start_daemon(
            f"--sysfs={node.folder / 'sys'}", f"--nvml-library={node.folder / 'none.so'}"
        )
        until(lambda: "no-library" in daemon.log.read_text(), "the state no-library")
        time.sleep(_SETTLE)
        yield Figure(
            name="resident memory, no hardware",
            unit="MB",
            values=_sampled(daemon.resident_mb, effort),
            target=45,
        )


def _sampled(read: Callable[[], float], effort: Effort) -> list[float]:
    values = []
    for _ in range(effort.times(5, 2)):
        values.append(read())
        time.sleep(0.5)
    return values


def cpu(effort: Effort) -> Iterable[Figure]:
    """Eight GPUs, nobody asking; polls of the driver, of PodResources and of the hardware run."""
    with Node() as node:
        time.sleep(_SETTLE)
        values = [_load(node.daemon, effort.times(10, 3)) for _ in range(effort.times(6, 1))]
        yield Figure(name="idle CPU", unit="% of a core", values=values, target=0.2)


def _load(daemon: Process, seconds: float) -> float:
    begun, spent = time.monotonic(), daemon.cpu_seconds()
    time.sleep(seconds)
    return (daemon.cpu_seconds() - spent) / (time.monotonic() - begun) * 100


def restarts(effort: Effort) -> Iterable[Figure]:
    """A thousand kubelet restarts: registered after each, and nothing grows."""
    with Node() as node:

        def once() -> None:
            node.kubelet.stop()
            # As long as a kubelet's restart takes at the least: our socket has gone by then.
            until(lambda: not node.sockets(), "the daemon lets its socket go")
            node.kubelet.start()
            node.next_list(GPUS)

        yield from _growth(node, once, "kubelet restarts", effort)


def cuts(effort: Effort) -> Iterable[Figure]:
    """A thousand cut streams, with the pause after each shortened."""
    with Node(timings=["stream-pause=0.01"]) as node:

        def once() -> None:
            node.kubelet.cut_stream(GPU)
            node.next_list(GPUS)

        yield from _growth(node, once, "stream cuts", effort)


def _growth(node: Node, once: Callable[[], None], what: str, effort: Effort) -> Iterable[Figure]:
    warm_up, times = effort.times(100, 10), effort.times(1000, 30)
    for _ in range(warm_up):
        once()
    before = _counts(node.daemon)
    for _ in range(times):
        once()
    after = _counts(node.daemon)
    for (name, unit, target), was, now in zip(_COUNTED, before, after, strict=True):
        yield Figure(
            name=f"{name} grown over {times:,} {what}", unit=unit, values=[now - was], target=target
        )


_COUNTED = (("descriptors", "", 2), ("threads", "", 2), ("memory", "MB", 3))
"""A stream being closed may show for a moment; memory comes from the allocator in steps."""


def _counts(daemon: Process) -> tuple[float, float, float]:
    time.sleep(_SETTLE)
    return daemon.descriptors(), daemon.threads(), daemon.resident_mb()
