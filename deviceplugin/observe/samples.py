"""Building blocks of metric families: prefix, clock, and the three kinds."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from deviceplugin.observe.histogram import BOUNDS, Histogram

PREFIX = "device_plugin_"

L = TypeVar("L", bound=tuple[str, ...])
"""Label values, in the order of the label names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Two clocks read together, to give CLOCK_MONOTONIC times as Unix times."""

    monotonic: float
    unix: float

    @classmethod
    def now(cls) -> "Clock":
        """Read both."""
        return cls(monotonic=time.monotonic(), unix=time.time())

    def wall(self, at: float) -> float:
        """Give a monotonic time as Unix time, to the millisecond so that it does not jitter."""
        return round(self.unix - self.monotonic + at, 3)


def gauge(name: str, text: str, labels: Iterable[str], samples: Mapping[L, float]) -> Metric:
    """Make a gauge; ``samples`` are by label values."""
    family = GaugeMetricFamily(PREFIX + name, text, labels=tuple(labels))
    for values, value in samples.items():
        family.add_metric(values, value)
    return family


def counter(name: str, text: str, labels: Iterable[str], samples: Mapping[L, float]) -> Metric:
    """Make a counter; the library adds ``_total`` to its name."""
    family = CounterMetricFamily(PREFIX + name, text, labels=tuple(labels))
    for values, value in samples.items():
        family.add_metric(values, value)
    return family


def histogram(name: str, text: str, samples: Mapping[L, Histogram]) -> Metric:
    """Make a histogram by resource."""
    family = HistogramMetricFamily(PREFIX + name, text, labels=("resource",))
    bounds = [*map(str, BOUNDS), "+Inf"]
    for values, seen in samples.items():
        cumulated = accumulate(seen.counts)
        family.add_metric(values, list(zip(bounds, cumulated, strict=True)), seen.total)
    return family
