"""Frozen facts about a simulated node, and how they are told.

Threads put facts into the node's queue; the narrator turns them into happenings.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from deviceplugin.simulation.kubelet import Admission, Change


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of a daemon's log; ``message`` is the whole line where it is not JSON.

    Attributes:
        vendor: whose daemon.
        at: seconds of CLOCK_MONOTONIC when it was read.

    """

    message: str
    vendor: str = ""
    level: str = "info"
    fields: Mapping[str, object] = field(default_factory=dict)
    at: float = field(default_factory=time.monotonic, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A vendor's config file was written; ``at`` is CLOCK_MONOTONIC of the write itself."""

    at: float
    vendor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAdmitted:
    """A demo pod was admitted, or was not; ``at`` is when that was known."""

    admission: Admission


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraped:
    """What a daemon's metrics say.

    Attributes:
        vendor: whose daemon.
        reasons: by device id, of those that are not healthy.
        states: units by resource and state.

    """

    vendor: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """A daemon process ended; ``last`` are its last log lines."""

    code: int
    vendor: str = ""
    last: tuple[LogLine, ...] = ()


Fact = Change | LogLine | Edited | PodAdmitted | Scraped | Exited


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One line of the story.

    Attributes:
        event: bounded vocabulary: ``start``, ``list``, ``pod``, ``config``, ``daemon``,
            ``kubelet``, ``end``.
        text: one line for people.
        bad: something is wrong now.
        fields: for programs.
        at: seconds of CLOCK_MONOTONIC.

    """

    event: str
    text: str
    bad: bool = False
    fields: Mapping[str, object] = field(default_factory=dict)
    at: float = field(default_factory=time.monotonic)
