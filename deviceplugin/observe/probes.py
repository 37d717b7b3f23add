"""When the process is ready and when it is beyond help: pure rules over the status.

Unhealthy devices, a refused edit and a driver that is away are none of a probe's
business: a restart mends none of them.
"""

from deviceplugin.model import BackendState, ResourceName
from deviceplugin.observe.service import Service
from deviceplugin.observe.status import Status

STREAM_GRACE = 5.0
"""Seconds: a stream that is back sooner (a kubelet's restart) is no news to a rollout."""

LOOP_LIMIT = 60.0
"""Seconds without a turn of the loop; it turns every few seconds even when all is quiet."""

_NOTHING_TO_LIST = frozenset(
    {BackendState.NO_LIBRARY, BackendState.NO_DRIVER, BackendState.NO_DEVICES}
)


def not_ready(status: Status, now: float) -> str:
    """Why the kubelet is not served yet or any more; "" when it is, or needs nothing of us."""
    if status.lock.held is False and not status.lock.blocked:
        # A rollout waits for this pod before it ends the one that holds the lock.
        return ""
    config = status.config
    if config.problems and not config.generation:
        return f"the config is refused and none was good before: {config.problems[0]}"
    if not status.listed:
        return _waiting(status)
    served = [name for name, counts in sorted(status.units.items()) if sum(counts.values())]
    missing = [name for name in served if not _service(status, name).streams]
    return next(filter(None, (_unserved(status, name, now) for name in missing)), "")


def ready(status: Status) -> str:
    """What a ready process says: with nothing to serve it is ready too, and says why."""
    if status.lock.held is False:
        return f"ready; {status.lock.detail}"
    if any(sum(counts.values()) for counts in status.units.values()):
        return "ready"
    return f"ready; nothing to serve: driver {status.backend.state.value}"


def not_alive(status: Status, now: float) -> str:
    """Why only a restart can help; "" when it cannot or need not."""
    idle = now - status.beat
    if idle > LOOP_LIMIT:
        return f"the daemon's loop has not turned for {idle:.0f} s"
    mismatch = status.backend.state is BackendState.DRIVER_MISMATCH
    if mismatch and status.config.restart_on_driver_mismatch:
        return (
            f"the driver was replaced ({status.backend.detail}) and the config asks for a restart"
            " (restartOnDriverMismatch: true)"
        )
    return ""


def _waiting(status: Status) -> str:
    backend = status.backend
    if backend.state in _NOTHING_TO_LIST:
        return ""
    detail = f": {backend.detail}" if backend.detail else ""
    return f"the first list is not made yet; driver {backend.state.value}{detail}"


def _unserved(status: Status, resource: ResourceName, now: float) -> str:
    service = _service(status, resource)
    if status.lock.blocked:
        return f"{resource}: the plugin folder cannot be used: {status.lock.detail}"
    if status.kubelet.state == "absent":
        return f"{resource}: the kubelet is absent: {status.kubelet.detail}"
    if service.error:
        return f"{resource}: the kubelet refuses the registration: {service.error}"
    if service.stream_lost is None:
        return f"{resource}: the kubelet has not asked for the list yet"
    lost = now - service.stream_lost
    if lost <= STREAM_GRACE:
        return ""
    return f"{resource}: the kubelet's stream is gone for {lost:.0f} s, a new one is not open yet"


def _service(status: Status, resource: ResourceName) -> Service:
    return status.services.get(resource, _NONE)


_NONE = Service()
