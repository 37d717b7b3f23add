"""What each path answers. Slow parts run on the worker threads of the HTTP server."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from deviceplugin.observe.connection import Answer, plain
from deviceplugin.observe.probes import not_alive, not_ready, ready
from deviceplugin.observe.status import Status
from deviceplugin.published import Published

logger = logging.getLogger(__name__)

_UNAVAILABLE = HTTPStatus.SERVICE_UNAVAILABLE


@dataclass(slots=True, kw_only=True)
class Pages:
    """The pages over one daemon's status.

    Attributes:
        status: published by the loop.
        alive: the daemon's self-check over its own socket; "" or why it failed.

    """

    status: Published[Status]
    alive: Callable[[], str]

    def answer(self, path: str) -> Answer:
        """Answer a path; an error inside is an answer too, and a log line."""
        page = {
            "/": self.index,
            "/healthz": self.healthz,
            "/readyz": self.readyz,
            "/metrics": self.metrics,
        }.get(path, _not_found)
        try:
            return page()
        except Exception:
            # The edge of a worker thread: a bug in one page must not cost the probes.
            logger.exception("a page failed", extra={"path": path})
            return plain("internal error; the log has the cause", HTTPStatus.INTERNAL_SERVER_ERROR)

    def index(self) -> Answer:
        """List what there is."""
        status = self.status.value
        simulated = f", simulated machine {status.simulated}" if status.simulated else ""
        return plain(
            f"deviceplugin, {status.vendor}{simulated}\n\n"
            "/healthz  200 unless only a restart can help\n"
            "/readyz   200 while the kubelet is served, or nothing is to be served\n"
            "/metrics  for Prometheus"
        )

    def healthz(self) -> Answer:
        """Liveness: the loop turns, and our own socket answers."""
        why = not_alive(self.status.value, time.monotonic()) or self.alive()
        return plain(why, _UNAVAILABLE) if why else plain("ok")

    def readyz(self) -> Answer:
        """Readiness, with the reason against it."""
        why = not_ready(self.status.value, time.monotonic())
        return plain(why, _UNAVAILABLE) if why else plain(ready(self.status.value))

    def metrics(self) -> Answer:
        """Prometheus' text format, in every state of the daemon."""
        # Imported at the first scrape: prometheus_client costs 10 MB and 0.1 s, which a
        # node that nobody scrapes, and a start that a kubelet waits for, need not pay.
        from deviceplugin.observe.metrics import CONTENT_TYPE, render  # noqa: PLC0415

        return Answer(body=render(self.status.value), kind=CONTENT_TYPE)


def _not_found() -> Answer:
    return plain("not found: there are /, /healthz, /readyz and /metrics", HTTPStatus.NOT_FOUND)
