"""From events to log lines: one line for each change, never one for each poll.

The kubelet side and the sources log what happens on their own threads; here is what only
the loop can tell.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from deviceplugin import events as ev
from deviceplugin.model import BackendState, DeviceId, Fault

logger = logging.getLogger("deviceplugin")

_QUIET_STATES = frozenset({BackendState.READY, BackendState.STARTING})


@dataclass(slots=True)
class Journal:
    """Writes the log of one daemon; remembers just enough to say nothing twice."""

    _said: dict[str, object] = field(default_factory=dict)
    _faults: dict[DeviceId, str] = field(default_factory=dict)

    def event(self, event: ev.Event) -> None:
        """Say what this event changed; events that are steps of a poll say nothing."""
        match event:
            case ev.BackendChanged():
                self._backend(event)
            case ev.Scanned():
                self._scan(event)
            case ev.ConfigAccepted() | ev.ConfigRefused() | ev.ConfigMissing():
                _config(event)
            case ev.Allocated() | ev.ListSent():
                _served(event)
            case ev.StateKept():
                _state(event)
            case _:
                pass  # steps of a poll, and what the thread concerned has logged itself

    def verdicts(self, faults: Mapping[DeviceId, Fault]) -> None:
        """Say which devices turned unhealthy or healthy since the last call."""
        before = self._faults
        for device, fault in faults.items():
            if before.get(device) != fault.kind:
                logger.warning(
                    "device is unhealthy",
                    extra={"device": device, "reason": fault.kind, "detail": fault.detail}
                    | {"clears_by": fault.action.value},
                )
        for device in before.keys() - faults.keys():
            logger.info("device is healthy again", extra={"device": device, "was": before[device]})
        self._faults = {device: fault.kind for device, fault in faults.items()}

    def waiting(self, why: str) -> None:
        """Say what the first list waits for, when that changes."""
        if self._changed("waiting", why) and why:
            logger.info("the first list waits", extra={"for": why})

    def unmet(self, lines: tuple[str, ...]) -> None:
        """Say which config entries this node cannot meet now, when that changes."""
        if self._changed("unmet", lines):
            for line in lines:
                logger.warning("config entry is unmet on this node", extra={"reason": line})
            if not lines:
                logger.info("every config entry is met on this node")

    def _changed(self, topic: str, now: object) -> bool:
        before = self._said.get(topic)
        self._said[topic] = now
        return before != now and not (before is None and not now)

    def _backend(self, event: ev.BackendChanged) -> None:
        level = logging.INFO if event.state in _QUIET_STATES else logging.WARNING
        logger.log(
            level, "driver state", extra={"state": event.state.value, "detail": event.detail}
        )

    def _scan(self, event: ev.Scanned) -> None:
        found = tuple(device.id for device in event.scan.devices)
        if self._changed("found", found):
            logger.info(
                "devices found",
                extra={"count": len(found), "seconds": round(event.seconds, 3)},
            )
        if self._changed("problems", event.scan.problems):
            for problem in event.scan.problems:
                logger.warning("a device did not answer", extra={"problem": problem})


def _config(event: ev.ConfigAccepted | ev.ConfigRefused | ev.ConfigMissing) -> None:
    match event:
        case ev.ConfigAccepted(config=config):
            logger.info("config in force", extra={"source": config.source, "digest": config.digest})
            for warning in config.warnings:
                logger.warning("config warning", extra={"warning": warning})
        case ev.ConfigRefused():
            for problem in event.problems:
                logger.error(
                    "config refused, the one in force stays", extra={"problem": str(problem)}
                )
        case ev.ConfigMissing():
            logger.warning(
                "config file is missing, the config in force stays", extra={"source": event.source}
            )


def _served(event: ev.Allocated | ev.ListSent) -> None:
    match event:
        case ev.ListSent():
            logger.info(
                "list sent",
                extra={"resource": event.resource, "units": event.units, "healthy": event.healthy},
            )
        case ev.Allocated(refused=""):
            logger.info(
                "allocated",
                extra={"resource": event.resource, "units": ",".join(event.units)}
                | {"ms": round(event.seconds * 1000, 2)},
            )
        case ev.Allocated():
            logger.warning(
                "allocation refused",
                extra={"resource": event.resource, "units": ",".join(event.units)}
                | {"why": event.refused},
            )


def _state(event: ev.StateKept) -> None:
    if event.problem:
        logger.warning(
            "state cannot be written, a restart would begin without it",
            extra={"problem": event.problem},
        )
    else:
        logger.info("state is written")
