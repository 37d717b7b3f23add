"""The status in Prometheus' text format. Imports prometheus_client: import this late.

The registry is our own, so nothing else in the process adds series by being imported.
"""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from deviceplugin.observe.families import families
from deviceplugin.observe.samples import Clock
from deviceplugin.observe.status import Status

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

_process = ProcessCollector(registry=None)
"""process_*: descriptors, resident memory, CPU, start time; read at each scrape."""


class StatusCollector(Collector):
    """One status as metric families, and the process's own."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        """Make the families anew."""
        yield from families(self._status, Clock.now())
        yield from _process.collect()


def render(status: Status) -> bytes:
    """Make the whole body of ``/metrics``."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StatusCollector(status))
    return generate_latest(registry)
