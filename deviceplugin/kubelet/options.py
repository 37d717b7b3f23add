"""Where the kubelet is and how patient we are with it; times in seconds."""

import time
from dataclasses import dataclass, field
from pathlib import Path


def _process_started() -> float:
    # Measured at import: some tenths of a second after the true start, which only
    # lengthens the pause that is counted from it.
    return _IMPORTED


_IMPORTED = time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletOptions:
    """Settings of the kubelet side of one vendor.

    Attributes:
        vendor: first part of our sockets' names and of the lock's.
        plugin_dir: the kubelet's folder of plugin sockets; not made by us.
        pod_resources: PodResources socket; None for the one beside ``plugin_dir``.
        take_over: ask a process that holds our lock to end, instead of waiting for it.
        stream_slots: ListAndWatch streams at once on one socket; the kubelet opens one,
            those up to 1.36 may leave old ones open.
        unary_reserve: threads kept free of streams, so that Allocate is always answered.
        register_deadline: one Register call; above 10, where the kubelet's own dial error
            comes.
        backoff_first: pause after a failed registration; doubles up to
        backoff_limit: a refusal costs the kubelet little, so half a minute is enough.
        stream_pause: after a stream of ours ended, before the next Register. Kubelets up to
            1.36 otherwise mix up that end with the new registration, unseen by us; 0.2 was
            always enough on a busy machine.
        stream_expected: from Register's answer to the kubelet's ListAndWatch, milliseconds
            in practice.
        settle: how long a stream may outlive a changed ``kubelet.sock``: when it does, the
            kubelet did not restart (or not yet) and the pause is due.
        look_every: between looks at socket files that inotify would also report; each costs
            idle CPU on three threads.
        stop_grace: for calls in flight when a socket is closed; streams end at once. Only
            ``settle`` when the kubelet's stream is gone: then they are no calls of its.
        self_check_deadline: our own call over our own socket.
        holders_poll: between questions to PodResources, ±20 % so that nodes spread.
        holders_poll_draining: the same while units wait to be given back.
        holders_deadline: one PodResources call.
        audit_interval: least time between two repairs of one resource by the audit: two
            rivals must not throw each other out without end.
        audit_settle: a list counts in the audit when sent so long before the question.
        lock_poll: between tries to take the lock while another process has it.
        started: CLOCK_MONOTONIC at process start.

    """

    vendor: str
    plugin_dir: Path = Path("/var/lib/kubelet/device-plugins")
    pod_resources: Path | None = None
    take_over: bool = False
    stream_slots: int = 16
    unary_reserve: int = 8
    register_deadline: float = 12.0
    backoff_first: float = 1.0
    backoff_limit: float = 30.0
    stream_pause: float = 1.0
    stream_expected: float = 2.0
    settle: float = 0.1
    look_every: float = 3.0
    stop_grace: float = 1.0
    self_check_deadline: float = 2.0
    holders_poll: float = 10.0
    holders_poll_draining: float = 1.0
    holders_deadline: float = 2.0
    audit_interval: float = 300.0
    audit_settle: float = 3.0
    lock_poll: float = 0.2
    started: float = field(default_factory=_process_started)

    @property
    def pod_resources_socket(self) -> Path:
        """Where PodResources is asked."""
        return self.pod_resources or self.plugin_dir.parent / "pod-resources" / "kubelet.sock"
