"""From events to log lines: one line for each change, never one for each poll.

The kubelet side and the sources log what happens on their own threads; here is what only
the loop can tell.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from deviceplugin import events as ev
from deviceplugin.faults import SEVERITY
from deviceplugin.model import Action, BackendState, Device, DeviceId, Fault

logger = logging.getLogger("deviceplugin")

SAY_AGAIN = 60.0
"""Seconds for which a symptom seen again and again is one line: a poll sees it each second."""

_QUIET_STATES = frozenset({BackendState.READY, BackendState.STARTING})


@dataclass(slots=True)
class Journal:
    """Writes the log of one daemon; remembers just enough to say nothing twice."""

    _said: dict[str, object] = field(default_factory=dict)
    _sick: dict[DeviceId, tuple[str, ...]] = field(default_factory=dict)  # kinds, in order
    _seen: dict[tuple[DeviceId, str], float] = field(default_factory=dict)
    _in_force: bool = False

    def event(self, event: ev.Event) -> None:
        """Say what this event changed; events that are steps of a poll say nothing."""
        match event:
            case ev.BackendChanged():
                self._backend(event)
            case ev.Scanned():
                self._scan(event)
            case ev.ConfigAccepted() | ev.ConfigRefused() | ev.ConfigMissing():
                self._config(event)
            case ev.Allocated() | ev.ListSent():
                _served(event)
            case ev.StateKept():
                _state(event)
            case ev.HardwareChanged(what=what):
                logger.info("hardware changed, looking at it again", extra={"what": what})
            case ev.WasReset(witness=""):
                logger.info("device was reset", extra={"device": event.device or "all"})
            case _:
                pass  # steps of a poll, and what the thread concerned has logged itself

    def symptom(self, event: ev.Symptom, action: Action, device: Device | None) -> None:
        """Say a symptom that changes no verdict; one that does is said by ``verdicts``.

        ``action`` is what the config makes of it.
        """
        key, before = (event.device, event.kind), self._seen.get((event.device, event.kind))
        self._seen[key] = event.at
        repeated = before is not None and event.at - before < SAY_AGAIN
        decides = action in SEVERITY and not self._sick.get(event.device)
        if action is Action.IGNORE or repeated or decides:
            return
        logger.info(
            "symptom",
            extra={**_who(event.device, device), "kind": event.kind, "action": action.value}
            | {"detail": event.detail},
        )

    def verdicts(
        self, faults: Mapping[DeviceId, Fault], devices: Mapping[DeviceId, Device]
    ) -> None:
        """Say which devices turned unhealthy or healthy since the last call."""
        for device, fault in faults.items():
            kinds = self._sick.get(device, ())
            if fault.kind not in kinds[-1:]:
                self._sick[device] = (*(kind for kind in kinds if kind != fault.kind), fault.kind)
                logger.warning(
                    "device is unhealthy",
                    extra={**_who(device, devices.get(device)), "reason": fault.kind}
                    | {"detail": fault.detail, "clears_by": fault.action.value},
                )
        for device in self._sick.keys() - faults.keys():
            was = ", ".join(self._sick.pop(device))
            logger.info(
                "device is healthy again",
                extra={**_who(device, devices.get(device)), "was": was},
            )

    def waiting(self, why: str) -> None:
        """Say what the first list waits for, when that changes."""
        if self._changed("waiting", why) and why:
            logger.info("the first list waits", extra={"for": why})

    def unmet(self, lines: tuple[str, ...]) -> None:
        """Say which config entries this node cannot meet now, when that changes."""
        if self._changed("unmet", lines):
            for number, line in enumerate(lines, start=1):
                logger.warning(
                    "config entry is unmet on this node",
                    # Who reads on knows with the first one that what was said before is over.
                    extra={"reason": line, "line": f"{number} of {len(lines)}"},
                )
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

    def _config(self, event: ev.ConfigAccepted | ev.ConfigRefused | ev.ConfigMissing) -> None:
        match event:
            case ev.ConfigAccepted(config=config):
                self._in_force = True
                logger.info(
                    "config in force", extra={"source": config.source, "digest": config.digest}
                )
                for warning in config.warnings:
                    logger.warning("config warning", extra={"warning": warning})
            case ev.ConfigRefused():
                for problem in event.problems:
                    logger.error(self._refused(), extra={"problem": str(problem)})
            case ev.ConfigMissing():
                logger.warning(
                    "config file is missing, the config in force stays",
                    extra={"source": event.source},
                )

    def _refused(self) -> str:
        if self._in_force:
            return "config refused, the one in force stays"
        return "config refused, none is in force: nothing is served"

    def _scan(self, event: ev.Scanned) -> None:
        found = tuple(device.id for device in event.scan.devices)
        if self._changed("found", found):
            logger.info(
                "devices found",
                extra={"count": len(found), "seconds": round(event.seconds, 3)},
            )
        if self._changed("problems", event.scan.problems):
            for problem in event.scan.problems:
                logger.warning("a device is not served", extra={"problem": problem})


def _who(device: DeviceId, found: Device | None) -> dict[str, object]:
    """Names of a device: ours, and those that the driver's tools and the kernel log use."""
    if found is None:
        return {"device": device}
    return {"device": device, "index": found.index, "pci": found.pci_address or "unknown"}


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
