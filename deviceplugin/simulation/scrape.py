"""Reads what the daemon's /metrics say about health, which the kubelet cannot know."""

import threading
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from deviceplugin.simulation.facts import Scraped

_HEALTH = "device_plugin_device_health"
_UNITS = "device_plugin_devices"
_SECONDS = 2.0
_PATIENCE = 1.0
_SETTLE = 0.05  # the daemon publishes its status just after it sent a list

Sample = tuple[str, Mapping[str, str], float]


def parse(samples: Iterable[Sample]) -> Scraped:
    """Pick health reasons and unit states out of all samples."""
    reasons: dict[str, str] = {}
    states: dict[str, dict[str, int]] = {}
    for name, labels, value in samples:
        if name == _HEALTH and not value:
            reasons[labels["device"]] = labels["reason"]
        if name == _UNITS and value:
            states.setdefault(labels["resource"], {})[labels["state"]] = int(value)
    return Scraped(reasons=reasons, states=states)


def scrape(address: str) -> Scraped | None:
    """Ask a daemon; None when it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=_PATIENCE) as page:
            text = page.read().decode()
    except OSError:
        return None
    families = text_string_to_metric_families(text)
    return parse((s.name, s.labels, s.value) for family in families for s in family.samples)


class Scraper:
    """Asks every two seconds, and at once when told to; a thread of its own.

    Attributes:
        address: ``HOST:PORT`` of the daemon; "" while it is not known.

    """

    def __init__(self, on_fact: Callable[[Scraped], None], vendor: str = "") -> None:
        self.address = ""
        self._vendor = vendor
        self._on_fact = on_fact
        self._now = threading.Event()

    def ask(self) -> None:
        """Have it ask at once."""
        self._now.set()

    def run(self, stop: threading.Event) -> None:
        """Go on until ``stop`` is set."""
        while not stop.is_set():
            if self._now.wait(_SECONDS):
                self._now.clear()
                stop.wait(_SETTLE)
            scraped = scrape(self.address) if self.address else None
            if scraped is not None:
                self._on_fact(replace(scraped, vendor=self._vendor))
