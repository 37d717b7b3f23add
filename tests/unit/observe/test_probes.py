"""When the process is ready and when it is alive."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from deviceplugin import events as ev
from deviceplugin.config.rules import Config, Problem
from deviceplugin.model import BackendState, ResourceName, Views
from deviceplugin.observe.probes import LOOP_LIMIT, STREAM_GRACE, not_alive, not_ready, ready
from deviceplugin.observe.status import ConfigStatus, Status, apply, with_views

GPU = ResourceName("nvidia.com/gpu")
NOW = 100.0
MakeViews = Callable[..., Views]
Fold = Callable[..., Status]

OPEN = ev.StreamsChanged(resource=GPU, open=1, at=50.0)
KUBELET = ev.KubeletChanged(state="present", detail="", at=1.0)
ABSENT = ev.KubeletChanged(state="absent", detail="no kubelet.sock in /x", at=1.0)
REFUSED = ev.RegistrationTried(
    resource=GPU, endpoint="a", error="resource name is not valid", seconds=0.1, at=60.0
)
ACCEPTED = ev.RegistrationTried(resource=GPU, endpoint="a", error="", seconds=0.1, at=60.0)
REJECTED = ev.ConfigRefused(
    source="f.yaml",
    problems=(Problem(file="f.yaml", line=3, path="replicas", found="0", remedy="write 1"),),
    at=1.0,
)
IN_FORCE = ev.ConfigAccepted(config=Config(), text="", at=0.5)
WAITING = ev.LockChanged(held=False, holder_pid=7, detail="process 7 serves", at=1.0)
BLOCKED = ev.LockChanged(held=False, holder_pid=None, detail="no folder", at=1.0, blocked=True)
HELD = ev.LockChanged(held=True, holder_pid=None, detail="", at=1.0)


def _lost(seconds: float) -> ev.StreamsChanged:
    return ev.StreamsChanged(resource=GPU, open=0, at=NOW - seconds)


def _driver(state: BackendState) -> ev.BackendChanged:
    return ev.BackendChanged(state=state, detail="said so", at=1.0)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([OPEN], id="stream-open"),
        pytest.param([OPEN, REJECTED, IN_FORCE], id="rejected-then-good"),
        pytest.param([IN_FORCE, REJECTED, OPEN], id="rejected-edit"),
        pytest.param([OPEN, ABSENT], id="socket-file-gone-but-served"),
        pytest.param([OPEN, REFUSED], id="refused-once-but-served"),
        pytest.param([OPEN, _lost(STREAM_GRACE)], id="stream-lost-just-now"),
        pytest.param([WAITING, REJECTED], id="another-process-holds-the-lock"),
        pytest.param([OPEN, HELD], id="lock-held"),
        pytest.param([OPEN, _driver(BackendState.DRIVER_HUNG)], id="driver-hung-but-served"),
    ],
)
def test_ready(make_views: MakeViews, fold: Fold, events: list[ev.Event]) -> None:
    """The kubelet is served, or will be as soon as another process of ours lets it go."""
    status = with_views(fold(), make_views({"a": ""}), devices=(), unmet=())
    assert not_ready(fold(*events, status=status), NOW) == ""


@pytest.mark.parametrize(
    ("events", "said"),
    [
        pytest.param([], "has not asked for the list", id="just-started"),
        pytest.param([KUBELET, ACCEPTED], "has not asked for the list", id="no-stream-yet"),
        pytest.param([ABSENT], "kubelet is absent: no kubelet.sock in /x", id="absent"),
        pytest.param([REFUSED], "refuses the registration: resource name", id="refusing"),
        pytest.param([OPEN, _lost(1.0), ABSENT], "absent", id="absent-within-the-grace"),
        pytest.param([OPEN, _lost(STREAM_GRACE + 1)], "gone for 6 s", id="stream-lost-for-long"),
        pytest.param([REJECTED, OPEN], "f.yaml:3: replicas: found 0; write 1", id="no-config"),
        pytest.param([HELD], "has not asked", id="lock-held-but-not-served"),
        pytest.param([BLOCKED], "cannot be used: no folder", id="plugin-folder-unusable"),
    ],
)
def test_not_ready(make_views: MakeViews, fold: Fold, events: list[ev.Event], said: str) -> None:
    """Each reason is told in words that name what is waited for."""
    status = with_views(fold(), make_views({"a": ""}), devices=(), unmet=())
    assert said in not_ready(fold(*events, status=status), NOW)


@pytest.mark.parametrize(
    ("state", "ready"),
    [
        pytest.param(BackendState.NO_LIBRARY, True, id="no-library"),
        pytest.param(BackendState.NO_DRIVER, True, id="no-driver"),
        pytest.param(BackendState.NO_DEVICES, True, id="no-devices"),
        pytest.param(BackendState.STARTING, False, id="starting"),
        pytest.param(BackendState.FEWER_DEVICES, False, id="waiting-for-devices"),
        pytest.param(BackendState.DRIVER_HUNG, False, id="driver-hung-at-start"),
        pytest.param(BackendState.READY, False, id="ready-but-not-planned-yet"),
    ],
)
def test_before_the_first_list(fold: Fold, state: BackendState, *, ready: bool) -> None:
    """A node without hardware is ready at once; one whose list is being made is not."""
    why = not_ready(fold(_driver(state)), NOW)
    assert (why == "") is ready
    assert ready or state.value in why


def test_a_resource_without_units_needs_no_stream(make_views: MakeViews, fold: Fold) -> None:
    """Nothing to serve is served."""
    status = with_views(fold(), make_views({}), devices=(), unmet=())
    assert not_ready(status, NOW) == ""


def test_every_resource_with_units_needs_a_stream(make_views: MakeViews, fold: Fold) -> None:
    """One resource that is served does not stand for another."""
    views = make_views({"a": ""}) | make_views({"b": ""}, "nvidia.com/gpu.shared")
    status = apply(with_views(fold(), views, devices=(), unmet=()), OPEN)
    assert not_ready(status, NOW).startswith("nvidia.com/gpu.shared: ")


def test_unhealthy_units_do_not_matter(make_views: MakeViews, fold: Fold) -> None:
    """A node with broken devices is served all the same."""
    status = with_views(fold(OPEN), make_views({"a": "lost"}), devices=(), unmet=("x",))
    assert not_ready(status, NOW) == ""


@pytest.mark.parametrize(
    ("idle", "alive"),
    [
        pytest.param(0.0, True, id="turns"),
        pytest.param(LOOP_LIMIT, True, id="late"),
        pytest.param(LOOP_LIMIT + 1, False, id="stuck"),
    ],
)
def test_alive_while_the_loop_turns(idle: float, *, alive: bool) -> None:
    """A loop that stands still can only be mended by a restart."""
    assert (not_alive(Status(vendor="nvidia", beat=NOW - idle), NOW) == "") is alive


@pytest.mark.parametrize(
    ("state", "asked", "alive"),
    [
        pytest.param(BackendState.DRIVER_MISMATCH, True, False, id="mismatch-and-asked"),
        pytest.param(BackendState.DRIVER_MISMATCH, False, True, id="mismatch-not-asked"),
        pytest.param(BackendState.DRIVER_HUNG, True, True, id="another-state"),
    ],
)
def test_a_replaced_driver_ends_us_only_on_request(
    state: BackendState, *, asked: bool, alive: bool
) -> None:
    """A mismatch is the one state of a driver that can fail liveness, where the user asks."""
    status = apply(Status(vendor="nvidia", beat=NOW), _driver(state))
    status = replace(status, config=ConfigStatus(restart_on_driver_mismatch=asked))
    why = not_alive(status, NOW)
    assert (why == "") is alive
    assert alive or "restartOnDriverMismatch" in why


@pytest.mark.parametrize(
    ("events", "units", "said"),
    [
        pytest.param([OPEN], {"a": ""}, "ready", id="served"),
        pytest.param([WAITING], {}, "ready; process 7 serves", id="waits-for-the-lock"),
        pytest.param(
            [_driver(BackendState.NO_LIBRARY)],
            {},
            "ready; nothing to serve: driver no-library",
            id="no-driver",
        ),
    ],
)
def test_what_a_ready_process_says(
    make_views: MakeViews, fold: Fold, events: list[ev.Event], units: dict[str, str], said: str
) -> None:
    """A process that is ready because there is nothing to do does not look like one that serves."""
    status = with_views(fold(), make_views(units), devices=(), unmet=())
    assert ready(fold(*events, status=status)) == said
