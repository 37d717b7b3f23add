"""What the kubelet side does, row by row, when something happens to it or to the kubelet."""

import errno
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.events import (
    KubeletChanged,
    ListSent,
    LockChanged,
    RegistrationTried,
    StreamsChanged,
)
from deviceplugin.simulation.kubelet import ChangeKind, Pod, SimulatedKubelet

GPU = "nvidia.com/gpu"
DEAD = "nvidia-gpu-0123abcd.sock"


def changes(kubelet: SimulatedKubelet, *kinds: ChangeKind) -> list[Any]:
    """Pick what happened in the kubelet, by kind."""
    return [change for change in kubelet.changes if change.kind in kinds]


def registrations(rig: Any) -> list[RegistrationTried]:
    """Registrations that were accepted."""
    return [event for event in rig.record.of(RegistrationTried) if not event.error]


def leave_dead_socket(path: Path) -> None:
    """Do as a process does that is killed."""
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
        killed.listen()


def test_start_registers_and_lists(rig: Any) -> None:
    """A kubelet that is there gets one registration, one stream and the whole list at once."""
    assert [event.resource for event in registrations(rig)] == [GPU]
    assert [event.open for event in rig.record.of(StreamsChanged)] == [1]
    assert rig.record.wait(lambda: rig.record.of(ListSent))
    (sent,) = rig.record.of(ListSent)
    assert (sent.units, sent.healthy) == (8, 8)
    assert sent.size > 8 * len("gpu-0")


def test_kubelet_restart_registers_at_once(make_rig: Callable[..., Any]) -> None:
    """A new kubelet.sock is registered with at once, on a new name, whatever pauses are set."""
    rig = make_rig(stream_pause=30.0, backoff_first=30.0, backoff_limit=30.0).up()
    before = rig.sockets()
    begun = time.monotonic()
    rig.kubelet.restart()
    assert rig.allocatable(8)
    assert time.monotonic() - begun < 5
    assert rig.record.wait(lambda: len(registrations(rig)) == 2)
    assert len(rig.sockets()) == 1
    assert rig.sockets() != before
    assert [event.state for event in rig.record.of(KubeletChanged)][-1] == "restarted"


def test_new_kubelet_cancels_a_backoff(make_rig: Callable[..., Any]) -> None:
    """After a refusal the next try is far off; a new kubelet.sock brings it at once."""
    rig = make_rig(backoff_first=30.0, backoff_limit=30.0)
    rig.kubelet.refuse_registrations(1)
    rig.side.start()
    rig.side.serve([GPU])
    assert rig.record.wait(lambda: rig.record.of(RegistrationTried))
    rig.kubelet.restart()
    assert rig.allocatable(8)


def test_kubelet_away_then_back(make_rig: Callable[..., Any], kubelet: SimulatedKubelet) -> None:
    """While the kubelet is away nothing is bound or tried; it is served when it comes."""
    kubelet.stop()
    rig = make_rig()
    rig.side.start()
    rig.side.serve([GPU])
    assert rig.record.wait(lambda: rig.record.of(KubeletChanged))
    assert "refuses connections" in rig.record.of(KubeletChanged)[-1].detail
    assert rig.sockets() == []
    assert rig.record.of(RegistrationTried) == []
    kubelet.start()
    assert rig.allocatable(8)


def test_own_socket_file_gone(rig: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Without its socket file, the same kubelet and a living stream: a log line, no more."""
    with caplog.at_level("INFO"):
        (rig.kubelet.plugin_dir / rig.sockets()[0]).unlink()
        assert rig.record.wait(lambda: "own socket file is gone" in caplog.text)
    rig.views.set({GPU: rig.views.value[GPU]})
    assert rig.kubelet.admit(Pod.asking("still-served", **{GPU: 1})).admitted
    assert len(rig.record.of(RegistrationTried)) == 1
    assert rig.record.of(StreamsChanged)[-1].open == 1


def test_lost_stream_pauses_then_registers_anew(make_rig: Callable[..., Any]) -> None:
    """A stream lost under the same kubelet: old server stopped, a pause, a new name."""
    rig = make_rig(stream_pause=0.3).up()
    old = rig.sockets()
    rig.kubelet.cut_stream(GPU)
    assert rig.allocatable(0)
    assert rig.allocatable(8)
    assert set(rig.sockets()).isdisjoint(old)
    assert len(rig.sockets()) == 1
    (ended,) = changes(rig.kubelet, ChangeKind.STREAM_ENDED)
    assert changes(rig.kubelet, ChangeKind.REGISTERED)[-1].at - ended.at >= 0.25


def test_never_two_streams(make_rig: Callable[..., Any]) -> None:
    """Over cuts and restarts a new stream opens only after the old one ended."""
    rig = make_rig().up()
    for trouble in (rig.kubelet.cut_stream, lambda _: rig.kubelet.restart()) * 3:
        registered = len(registrations(rig))
        trouble(GPU)
        assert rig.record.wait(lambda before=registered: len(registrations(rig)) > before)
        assert rig.allocatable(8)
    assert {event.open for event in rig.record.of(StreamsChanged)} == {0, 1}


LATE = {"era": "1.36", "disconnect_delay": 0.1}


@pytest.mark.parametrize(
    "kubelet",
    [pytest.param({**LATE, "late_end": end}, id=end) for end in ("wipe", "deaf", "broken")],
    indirect=True,
)
def test_pause_outlasts_the_late_end(make_rig: Callable[..., Any]) -> None:
    """A kubelet that handles a stream's end late finds no newer registration to harm."""
    rig = make_rig(stream_pause=0.4).up()
    rig.kubelet.cut_stream(GPU)
    assert rig.record.wait(lambda: len(registrations(rig)) == 2)
    assert rig.allocatable(8)
    assert rig.kubelet.admit(Pod.asking("after", **{GPU: 1})).admitted
    rig.kubelet.cut_stream(GPU)
    assert rig.allocatable(0), "the end of the newer stream must be seen"


@pytest.mark.parametrize("kubelet", [pytest.param(LATE, id="wipe")], indirect=True)
def test_without_the_pause_the_late_end_harms(make_rig: Callable[..., Any]) -> None:
    """The same without a pause loses the new stream: the pause is what protects."""
    rig = make_rig(stream_pause=0.001).up()
    rig.kubelet.cut_stream(GPU)
    assert rig.record.wait(lambda: len(registrations(rig)) >= 3)


def test_touched_kubelet_socket_is_no_restart(make_rig: Callable[..., Any]) -> None:
    """A changed ctime under a living stream: we end the stream, and the pause is kept."""
    rig = make_rig(stream_pause=0.3, settle=0.05).up()
    (rig.kubelet.plugin_dir / "kubelet.sock").chmod(0o700)
    assert rig.record.wait(lambda: len(registrations(rig)) == 2)
    assert rig.allocatable(8)
    first, second = registrations(rig)
    ended = [event.at for event in rig.record.of(StreamsChanged) if not event.open]
    assert second.at - ended[0] >= 0.25
    assert first.endpoint != second.endpoint


def test_refused_twenty_times_then_accepted(make_rig: Callable[..., Any]) -> None:
    """Refusals are retried for ever, each on a name of its own, and none is left behind."""
    rig = make_rig()
    rig.kubelet.refuse_registrations(20, "not today")
    rig.up()
    tried = rig.record.of(RegistrationTried)
    assert len(tried) == 21
    assert len({event.endpoint for event in tried}) == 21
    assert all("not today" in event.error for event in tried[:20])
    assert rig.sockets() == [tried[-1].endpoint]


def test_backoff_doubles_to_its_limit(make_rig: Callable[..., Any]) -> None:
    """Pauses between refused registrations double and then stay."""
    rig = make_rig(backoff_first=0.05, backoff_limit=0.2)
    rig.kubelet.refuse_registrations(5)
    rig.up()
    times = [event.at for event in rig.record.of(RegistrationTried)]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    for pause, expected in zip(pauses, [0.05, 0.1, 0.2, 0.2, 0.2], strict=True):
        assert expected <= pause < expected + 0.15


def test_second_process_waits_for_the_lock(make_rig: Callable[..., Any]) -> None:
    """A second one of ours binds and registers nothing until the first has ended."""
    first = make_rig().up()
    second = make_rig(stream_pause=0.3)
    second.side.start()
    second.side.serve([GPU])
    assert second.record.wait(lambda: second.record.of(LockChanged))
    waiting = second.record.of(LockChanged)[-1]
    assert not waiting.held
    assert waiting.holder_pid == os.getpid()
    assert "waiting until it ends" in waiting.detail
    assert len(first.sockets()) == 1
    first.side.stop(2.0)
    released = time.monotonic()
    assert second.allocatable(8)
    assert second.record.wait(lambda: registrations(second))
    assert second.record.of(LockChanged)[-1].held
    assert registrations(second)[0].at - released >= 0.2, "the first one's stream just ended"


def test_dead_sockets_are_removed_and_waited_for(
    make_rig: Callable[..., Any], kubelet: SimulatedKubelet
) -> None:
    """Leftovers of a killed process go, and the kubelet gets time to notice its end."""
    leave_dead_socket(kubelet.plugin_dir / DEAD)
    leave_dead_socket(kubelet.plugin_dir / "amd-gpu-0123abcd.sock")
    started = time.monotonic()
    rig = make_rig(started=started, stream_pause=0.4).up()
    assert DEAD not in rig.sockets()
    assert (kubelet.plugin_dir / "amd-gpu-0123abcd.sock").exists()
    assert registrations(rig)[0].at - started >= 0.4


def test_live_sockets_are_never_removed(
    make_rig: Callable[..., Any], kubelet: SimulatedKubelet
) -> None:
    """A socket of our name pattern that somebody serves stays, at start and at stop."""
    with socket.socket(socket.AF_UNIX) as living:
        living.bind(str(kubelet.plugin_dir / DEAD))
        living.listen()
        rig = make_rig().up()
        rig.side.stop(2.0)
        assert rig.sockets() == [DEAD]


def test_without_leftovers_registration_is_at_once(make_rig: Callable[..., Any]) -> None:
    """Where no predecessor died, nothing is waited for."""
    started = time.monotonic()
    rig = make_rig(started=started, stream_pause=30.0).up()
    assert registrations(rig)[0].at - started < 10


def test_stop_ends_streams_and_removes_own_sockets(
    make_rig: Callable[..., Any], kubelet: SimulatedKubelet
) -> None:
    """Within two seconds streams end cleanly and only our sockets are gone."""
    leave_dead_socket(kubelet.plugin_dir / "other.sock")
    rig = make_rig().up()
    begun = time.monotonic()
    rig.side.stop(2.0)
    assert time.monotonic() - begun < 2
    assert rig.allocatable(0)
    assert rig.record.of(StreamsChanged)[-1].open == 0
    assert rig.sockets() == []
    assert {path.name for path in kubelet.plugin_dir.glob("*.sock")} == {
        "kubelet.sock",
        "other.sock",
    }


def test_stop_leaves_no_thread(make_rig: Callable[..., Any]) -> None:
    """All threads of ours carry names while they run, and end with the stop."""
    rig = make_rig().up()
    ours = {"kubelet-socket", "kubelet-lock", "kubelet-holders", f"register-{GPU}"}
    assert ours <= {thread.name for thread in threading.enumerate()}
    rig.side.stop(2.0)
    assert ours.isdisjoint(thread.name for thread in threading.enumerate())
    assert rig.record.wait(_no_rpc_thread), "idle threads of the pool end soon afterwards"


def _no_rpc_thread() -> bool:
    return not any(thread.name.startswith("rpc-") for thread in threading.enumerate())


def test_many_restarts_and_cuts_leave_nothing(make_rig: Callable[..., Any]) -> None:
    """A hundred restarts and a hundred cuts: registered each time, nothing piles up."""
    rig = make_rig(stream_pause=0.01).up()
    for trouble in [rig.kubelet.cut_stream, lambda _: rig.kubelet.restart()] * 5:
        _go_through(rig, trouble)
    before = _resources()
    for trouble in [rig.kubelet.cut_stream, lambda _: rig.kubelet.restart()] * 100:
        _go_through(rig, trouble)
    after = _resources()
    assert after[0] <= before[0] + 5, "descriptors"
    assert after[1] <= before[1] + 5, "threads"
    assert len(rig.sockets()) == 1


def _go_through(rig: Any, trouble: Callable[[str], object]) -> None:
    registered = len(registrations(rig))
    trouble(GPU)
    assert rig.record.wait(lambda: len(registrations(rig)) > registered)
    assert rig.allocatable(8)


def _resources() -> tuple[int, int]:
    return len(list(Path("/proc/self/fd").iterdir())), threading.active_count()


def test_connection_refused_is_the_sign_of_death(root: Path) -> None:
    """A socket file whose process was killed refuses connections, as the clean-up assumes."""
    leave_dead_socket(root / DEAD)
    with socket.socket(socket.AF_UNIX) as probe:
        assert probe.connect_ex(str(root / DEAD)) == errno.ECONNREFUSED
