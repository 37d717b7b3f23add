"""A status that was folded from a plausible life of a daemon."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from deviceplugin import events as ev
from deviceplugin.config.rules import Config, Problem
from deviceplugin.model import (
    Action,
    BackendState,
    ContainerEdits,
    Device,
    DeviceId,
    Fault,
    ResourceName,
    ResourceView,
    Unit,
    UnitId,
    Views,
)
from deviceplugin.observe.status import Status, apply, health, with_views

GPU = ResourceName("nvidia.com/gpu")
FIRST, SECOND, GONE = DeviceId("GPU-0"), DeviceId("GPU-1"), DeviceId("GPU-9")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoDelivery:
    """Hands out nothing: nobody allocates here."""

    unmet: str = ""

    def edits(self, devices: Sequence[Device]) -> ContainerEdits:
        """No edits."""
        del devices
        return ContainerEdits()


MakeViews = Callable[..., Views]
Fold = Callable[..., Status]


def _views(*units: Unit, resource: str = GPU) -> Views:
    view = ResourceView(name=ResourceName(resource), units=units, devices={}, delivery=NoDelivery())
    return {view.name: view}


def _unit(name: str, *, reason: str = "") -> Unit:
    return Unit(
        id=UnitId(name),
        device=DeviceId(name.partition("::")[0]),
        healthy=not reason,
        reason=reason,
    )


@pytest.fixture
def make_views() -> MakeViews:
    """Make the views of one resource from unit ids and reasons against them."""

    def make(reasons: dict[str, str], resource: str = GPU) -> Views:
        units = [_unit(name, reason=reason) for name, reason in reasons.items()]
        return _views(*units, resource=resource)

    return make


@pytest.fixture
def fold() -> Fold:
    """Fold events into a status, a fresh one unless given."""

    def folded(*events: ev.Event, status: Status | None = None) -> Status:
        status = status or Status(vendor="nvidia", beat=0.0)
        for event in events:
            status = apply(status, event)
        return status

    return folded


@pytest.fixture
def lived_in(fold: Fold, make_views: MakeViews) -> Status:
    """A status in which every family of the metrics has samples."""
    status = fold(
        ev.LockChanged(held=True, holder_pid=None, detail="", at=1.0),
        ev.BackendChanged(state=BackendState.READY, detail="", at=1.0),
        ev.Scanned(scan=ev.Scan(problems=("GPU 3: lost",)), seconds=0.25, at=1.25),
        ev.ConfigAccepted(
            config=Config(source="nvidia.yaml", digest="4f1d", warnings=("gfd has no effect",)),
            text="version: v1",
            at=2.0,
        ),
        ev.KubeletChanged(state="present", detail="", at=2.0),
        ev.RegistrationTried(resource=GPU, endpoint="a.sock", error="", seconds=0.01, at=3.0),
        ev.StreamsChanged(resource=GPU, open=1, at=3.0),
        ev.ListSent(resource=GPU, units=2, healthy=1, size=118, at=3.0),
        ev.Allocated(resource=GPU, units=(UnitId(FIRST),), refused="", seconds=0.0004, at=4.0),
        ev.PreferredAnswered(resource=GPU, size=1, seconds=0.002, at=4.0),
        ev.HoldersAnswered(begun=4.0, held={}, allocatable={}, at=4.5),
        ev.Symptom(
            device=SECOND, kind="xid-79", detail="fell off the bus", action=Action.RESET, at=5.0
        ),
        ev.SourceFailed(source="nvidia-events", error="unknown error", retry_in=1.0, at=6.0),
        ev.ConfigRefused(
            source="nvidia.yaml",
            problems=(
                Problem(file="nvidia.yaml", line=3, path="a.b", found="-1", remedy="write 1"),
            ),
            at=7.0,
        ),
        ev.StateKept(problem="", at=8.0),
    )
    fault = Fault(
        device=SECOND,
        kind="xid-79",
        detail="fell off the bus",
        since=5.0,
        last=5.0,
        action=Action.RESET,
    )
    devices = [
        Device(id=SECOND, resource=GPU, index=1, name="H100"),
        Device(id=FIRST, resource=GPU, index=0, name="H100"),
    ]
    return with_views(
        status,
        make_views({"GPU-0": "", "GPU-1": "xid-79: fell off the bus", "GPU-9": "missing"}),
        devices=health(devices, {SECOND: fault}, [GONE]),
        unmet=("nvidia.yaml:7: GPU 12 is not on this node",),
    )
