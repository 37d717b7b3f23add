"""The scan thread: states with names, retries, and nothing said twice."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deviceplugin.backend import BackendUnavailableError
from deviceplugin.config.rules import Config
from deviceplugin.discovery import Discovery
from deviceplugin.events import BackendChanged, Event, Scan, Scanned
from deviceplugin.model import BackendState, Delivery, Device, ResourceName

MISSING = BackendUnavailableError(BackendState.NO_DRIVER, "not loaded")


@dataclass
class Scripted:
    """A backend that answers by a script, then stops the scan thread."""

    answers: list[Scan | BackendUnavailableError]
    stop: threading.Event = field(default_factory=threading.Event)
    vendor: str = "scripted"

    def discover(self) -> Scan:
        """Answer the next line."""
        answer = self.answers.pop(0)
        if not self.answers:
            self.stop.set()
        if isinstance(answer, BackendUnavailableError):
            raise answer
        return answer

    def sources(self) -> Sequence[object]:
        """Give none."""
        return ()

    def delivery(
        self, config: Config, resource: ResourceName, devices: Sequence[Device]
    ) -> Delivery:
        """Never asked here."""
        raise NotImplementedError


def run(*answers: Scan | BackendUnavailableError) -> list[Event]:
    """Events of a scan thread over these answers."""
    backend, said = Scripted(list(answers)), list[Event]()
    discovery = Discovery(backend=backend, rescan=0.001, retry_limit=0.001)  # type: ignore[arg-type]
    discovery.run(said.append, backend.stop)
    return said


def test_each_good_scan_is_an_event_and_the_state_is_said_once() -> None:
    """Scans repeat, the state that did not change does not."""
    said = run(Scan(), Scan())
    assert [type(event) for event in said] == [BackendChanged, Scanned, Scanned]


def test_a_driver_that_comes_late_is_found() -> None:
    """A state without a driver is said once, and left as soon as a scan goes well."""
    said = run(MISSING, MISSING, Scan())
    states = [event.state for event in said if isinstance(event, BackendChanged)]
    assert states == [BackendState.NO_DRIVER, BackendState.READY]


def test_a_scan_under_way_can_be_seen_from_outside() -> None:
    """While a driver call takes long, ``busy_since`` says since when."""
    discovery: Discovery | None = None
    seen: list[float | None] = []

    class Slow(Scripted):
        def discover(self) -> Scan:
            assert discovery is not None
            seen.append(discovery.busy_since)
            return super().discover()

    backend = Slow([Scan()])
    clock: Callable[[], float] = lambda: 5.0  # noqa: E731 - a clock that stands still
    discovery = Discovery(backend=backend, rescan=1, retry_limit=1, clock=clock)  # type: ignore[arg-type]
    discovery.run(lambda _event: None, backend.stop)
    assert seen == [5.0]
    assert discovery.busy_since is None


def test_a_scan_that_is_asked_for_comes_at_once() -> None:
    """A change seen during a scan, too, is looked at without waiting for the next round."""
    discovery: Discovery | None = None

    class Asking(Scripted):
        def discover(self) -> Scan:
            assert discovery is not None
            discovery.soon()
            return super().discover()

    backend = Asking([Scan(), Scan(), Scan()])
    discovery = Discovery(backend=backend, rescan=3600, retry_limit=3600)  # type: ignore[arg-type]
    discovery.run(lambda _event: None, backend.stop)
    assert backend.answers == []
