"""What the registrations of a process share, and how they wait."""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from deviceplugin.events import Emit
from deviceplugin.kubelet.options import KubeletOptions
from deviceplugin.model import Views
from deviceplugin.published import Published
from deviceplugin.watch.kubelet_socket import KubeletSeen

_ANY_VERSION = sys.maxsize  # we wait for conditions, not for versions


class Gate(Protocol):
    """Allows registrations; rings the bell when it begins to."""

    held: bool
    """Whether it allowed them when it was last asked or looked; read without waiting."""

    def delay(self) -> float | None:
        """Seconds until a registration is allowed; None, and ``held`` False, while it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all registrations of a process share.

    Attributes:
        views: what is served.
        kubelet: what stands at kubelet.sock; also the bell that wakes who waits.
        suspect: has kubelet.sock looked at again.
        gate: says when a registration is allowed.
        stop: set, with a ring of the bell, when all must end.

    """

    options: KubeletOptions
    views: Published[Views]
    kubelet: Published[KubeletSeen]
    emit: Emit
    suspect: Callable[[], None]
    gate: Gate
    stop: threading.Event = field(default_factory=threading.Event)

    def wait(self, until: Callable[[], bool], timeout: float | None) -> None:
        """Wait for ``until``, the stop flag, or the time limit. ``until`` takes no lock."""
        self.kubelet.wait(_ANY_VERSION, lambda: self.stop.is_set() or until(), timeout)

    def ring(self) -> None:
        """Have everyone who waits look again. Callable from any thread, never blocks."""
        self.kubelet.wake()

    def is_other(self, kubelet: KubeletSeen) -> bool:
        """Whether another kubelet.sock than this accepts now."""
        seen = self.kubelet.value.identity
        return seen is not None and seen != kubelet.identity
