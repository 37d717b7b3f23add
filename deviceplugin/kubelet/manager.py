"""The kubelet side of the daemon: who else needs to know only this.

gRPC and protobuf are not imported here, only by the threads that serve or ask: without
hardware there is nothing to serve, and the process stays small.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from deviceplugin import sources
from deviceplugin.events import Displaced, Emit, HoldersAnswered, HoldersUnavailable
from deviceplugin.kubelet.admission import Admission
from deviceplugin.kubelet.audit import AuditRules, AuditState, audit
from deviceplugin.kubelet.holders import HoldersPoller
from deviceplugin.kubelet.options import KubeletOptions
from deviceplugin.kubelet.registration import Registration
from deviceplugin.kubelet.surroundings import Surroundings
from deviceplugin.model import ResourceName, Views
from deviceplugin.published import Published
from deviceplugin.watch.kubelet_socket import KubeletSeen, KubeletSocketWatch

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A thread's body as a source, for the guard and the restart that sources have."""

    name: str
    work: Callable[[threading.Event], None]

    def run(self, emit: Emit, stop: threading.Event) -> None:
        del emit
        self.work(stop)


class KubeletSide:
    """Keeps resources registered and listed, answers for them, and asks who holds what."""

    def __init__(self, options: KubeletOptions, views: Published[Views], emit: Emit) -> None:
        """Nothing starts here."""
        self._options = options
        self._emit = emit
        self._stop = threading.Event()
        self._kubelet = Published(KubeletSeen())
        self._watch = KubeletSocketWatch(
            options.plugin_dir, self._kubelet, emit, look_every=options.look_every
        )
        self._admission = Admission(options, emit, self._kubelet.wake)
        self._poller = HoldersPoller(options, self.ask_once, emit, self._audit_answer)
        self._around = Surroundings(
            options=options,
            views=views,
            kubelet=self._kubelet,
            emit=emit,
            suspect=self._watch.suspect,
            gate=self._admission,
            stop=self._stop,
        )
        self._known = False
        self._audit = AuditState()
        self._registrations: Mapping[ResourceName, Registration] = {}
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Follow kubelet.sock, take the lock, and be ready to ask; returns at once."""
        self._begin("kubelet-socket", self._watch.run)
        self._begin("kubelet-lock", self._admission.run)
        self._begin("kubelet-holders", self._poller.run)

    def _begin(self, name: str, work: Callable[[threading.Event], None]) -> None:
        task = _Task(name=name, work=work)
        self._threads.append(sources.start(task, self._emit, self._stop))

    def serve(self, resources: Iterable[ResourceName]) -> None:
        """See that these resources are served and registered; never blocks.

        May be called as often as one likes, from one thread. A resource once served stays
        served, with whatever the views have for it: the kubelet would count a lost one as a
        failure.
        """
        for name in resources:
            if name not in self._registrations:
                self._add(name)
        self._poller.watch(active=self._is_holdable())

    def _is_holdable(self) -> bool:
        return self._known or bool(self._registrations)

    def _add(self, name: ResourceName) -> None:
        registration = Registration(name, self._around)
        # Replaced, not changed: other threads read it.
        self._registrations = {**self._registrations, name: registration}
        self._begin(f"register-{name}", registration.run)

    def watch(self, *, active: bool) -> None:
        """Say whether a pod could hold units that are not served (yet); served ones count."""
        self._known = active
        self._poller.watch(active=self._is_holdable())

    def pace(self, *, draining: bool) -> None:
        """Say whether units wait to be given back; then holders are asked every second."""
        self._poller.pace(draining=draining)

    def ask_holders(self) -> None:
        """Have holders asked at once; the answer comes as an event. Never blocks."""
        self._poller.ask_now()

    def ask_once(self, timeout: float) -> HoldersAnswered | HoldersUnavailable:
        """Ask for holders and wait for the answer, at most ``timeout`` seconds."""
        from deviceplugin.kubelet.podresources import PodResources  # noqa: PLC0415 - see the top

        return PodResources(self._options.pod_resources_socket).ask(timeout)

    def self_check(self) -> str:
        """Ask each of our sockets; "" or why one is not alive. For liveness probes."""
        problems = (each.self_check() for each in self._registrations.values())
        return next((problem for problem in problems if problem), "")

    def stop(self, seconds: float) -> None:
        """End streams, servers and threads within ``seconds``; logs what it gave up on.

        First all is told to end, then everything ends side by side, then the lock is
        released, unless something still serves: the next process must not overlap with it.
        """
        deadline = time.monotonic() + seconds
        self._stop.set()
        for wake in (
            self._kubelet.wake,
            self._watch.wake,
            self._admission.wake,
            self._poller.ask_now,
        ):
            wake()
        left = sources.join(self._threads, deadline - time.monotonic())
        if left:
            logger.warning("gave up on what did not end in time", extra={"left": " ".join(left)})
        else:
            self._admission.release()

    def _audit_answer(self, answer: HoldersAnswered) -> None:
        lists = {name: each.sent() for name, each in self._registrations.items()}
        rules = AuditRules(settle=self._options.audit_settle, interval=self._options.audit_interval)
        self._audit, repairs = audit(self._audit, rules, lists, answer)
        for name, detail in repairs.items():
            logger.warning("registering anew", extra={"resource": name, "detail": detail})
            self._emit(Displaced(resource=name, detail=detail, at=answer.at))
            self._registrations[name].renew()
