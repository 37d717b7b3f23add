"""How soon the kubelet knows: an edit, a fault, its own restart, our start."""

import time
from collections.abc import Iterable

from bench.figures import Effort, Figure
from bench.node import GPUS, Node, sharing


def config(effort: Effort) -> Iterable[Figure]:
    """A ConfigMap swap that adds a share to each GPU; no list in between has fewer."""
    with Node(replicas=2) as node:
        values = []
        dips = 0
        for replicas in range(3, 3 + effort.times(40, 5)):
            begun = node.swap_config(sharing(replicas))
            change, before = node.next_list(GPUS * replicas)
            values.append((change.at - begun) * 1e3)
            dips += sum(len(each.healthy) < GPUS * (replicas - 1) for each in before)
        yield Figure(name="config swapped to list", unit="ms", values=values, target=250)
        yield Figure(name="lists with fewer units on the way", unit="", values=[dips], target=0)


def restart(effort: Effort) -> Iterable[Figure]:
    """From the call that starts a new kubelet to its first list."""
    with Node() as node:
        values = []
        for _ in range(effort.times(50, 5)):
            node.kubelet.stop()
            time.sleep(0.2)
            node.forget_changes()
            begun = time.monotonic()
            node.kubelet.start()
            change, _ = node.next_list(GPUS)
            values.append((change.at - begun) * 1e3)
        yield Figure(
            name="kubelet restarted to listed",
            unit="ms",
            values=values,
            target=20,
            note="the kubelet's own start included",
        )


def event(effort: Effort) -> Iterable[Figure]:
    """An XID on one GPU after the other, on a node that has just settled."""
    values = [value for _ in range(effort.times(5, 1)) for value in _xids()]
    yield Figure(name="driver event to Unhealthy", unit="ms", values=values, target=50)


def _xids() -> Iterable[float]:
    with Node() as node:
        time.sleep(1)  # the driver keeps no events for those who subscribe later
        for gpu in range(GPUS):
            begun = node.inject(f"{{xid: 79, gpu: {gpu}}}")
            change, _ = node.next_list(GPUS - 1 - gpu)
            yield (change.at - begun) * 1e3
            time.sleep(0.1)


def poll(effort: Effort) -> Iterable[Figure]:
    """A GPU that is lost without an event, at any moment between two polls."""
    with Node() as node:
        values = []
        for gpu in range(effort.times(GPUS, 2)):
            time.sleep(0.37)  # out of step with the poll
            begun = node.inject(f"{{lost: {gpu}}}")
            change, _ = node.next_list(GPUS - 1 - gpu)
            values.append((change.at - begun) * 1e3)
        yield Figure(
            name="GPU lost to Unhealthy, longest", unit="ms", values=[max(values)], target=1100
        )


def start(effort: Effort) -> Iterable[Figure]:
    """From the process's start to the first list in the kubelet."""
    with Node(start=False) as node:
        values = []
        for _ in range(effort.times(10, 2)):
            node.forget_changes()
            daemon = node.start_daemon()
            change, _ = node.next_list(GPUS)
            values.append(change.at - daemon.begun)
            daemon.stop()
        yield Figure(name="process started to listed", unit="s", values=values, target=0.9)
