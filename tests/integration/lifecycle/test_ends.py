"""How the process ends: in order, at once, or killed; and what it leaves behind."""

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import ChangeKind, SimulatedKubelet

GPU = "nvidia.com/gpu"
KILLS = 25  # for each era

Serves = Callable[..., bool]
Sockets = Callable[[], list[str]]


def test_killed_again_and_again(
    each_kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, sockets: Sockets
) -> None:
    """Killed while it starts, binds or serves, it leaves one dead socket at most."""
    for round_ in range(KILLS):
        dead = set(sockets())
        daemon = start()
        moments: tuple[Callable[[], object], ...] = (
            lambda daemon=daemon: daemon.says("starting"),
            lambda dead=dead: each_kubelet.wait(lambda: set(sockets()) - dead),
            lambda: serves(each_kubelet, 8),
        )
        assert moments[round_ % len(moments)](), f"round {round_}"
        daemon.kill()
        assert len(sockets()) <= 1
        assert each_kubelet.wait(lambda: not each_kubelet.allocatable().get(GPU))
    start()
    assert serves(each_kubelet, 8)
    assert len(sockets()) == 1


def test_sigterm_with_open_streams(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Callable[..., str],
    sockets: Sockets,
) -> None:
    """It ends within two seconds with code 0 and removes its own sockets, and nothing else."""
    config.write(sharing(replicas=2, devices=[0], rename="nvidia.com/gpu.shared"))
    folder = each_kubelet.plugin_dir
    plain = folder / "nvidia-gpu-00000000.sock"
    plain.write_text("not a socket")
    daemon = start()
    assert serves(each_kubelet, 7)
    assert serves(each_kubelet, 2, "nvidia.com/gpu.shared")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(os.fspath(folder / "nvidia-gpu-12345678.sock"))
        other.listen()
        assert len(sockets()) == 4
        begun = time.monotonic()
        daemon.send(signal.SIGTERM)
        assert daemon.wait() == 0
        assert time.monotonic() - begun <= 2.0
        assert sockets() == ["nvidia-gpu-00000000.sock", "nvidia-gpu-12345678.sock"]
    assert plain.read_text() == "not a socket"
    ended = [each for each in each_kubelet.changes if each.kind is ChangeKind.STREAM_ENDED]
    assert {each.resource for each in ended} == {GPU, "nvidia.com/gpu.shared"}


def test_sigint_ends_it_too(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, sockets: Sockets
) -> None:
    """Ctrl-C in a terminal is as orderly an end as SIGTERM."""
    daemon = start()
    assert serves(kubelet, 8)
    daemon.send(signal.SIGINT)
    assert daemon.wait() == 0
    assert not sockets()


@pytest.mark.parametrize("moment", ["serving metrics", "kubelet present", "devices found"])
def test_sigterm_during_the_start(
    moment: str, kubelet: SimulatedKubelet, start: Callable[..., Any], sockets: Sockets
) -> None:
    """Ended before the first list it ends in order as well, and leaves nothing."""
    daemon = start()
    assert daemon.says(moment)
    daemon.send(signal.SIGTERM)
    assert daemon.wait(3.0) == 0
    assert not sockets()
    assert not kubelet.allocatable().get(GPU)


def test_a_second_signal_forces(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, control: Any
) -> None:
    """While a driver call keeps it from ending, a second signal ends it at once."""
    daemon = start(stop=30)
    assert serves(kubelet, 8)
    control(hang=60)
    assert daemon.says("simulated", "hang 60")
    daemon.send(signal.SIGTERM)
    assert kubelet.wait(lambda: kubelet.allocatable().get(GPU) == 0)
    assert daemon.running
    begun = time.monotonic()
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 128 + signal.SIGTERM
    assert time.monotonic() - begun <= 0.5
    assert daemon.said("second signal")


def test_a_hanging_driver_does_not_delay_the_end(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, control: Any
) -> None:
    """A driver call that never ends is given up: SIGTERM is obeyed within the limit."""
    daemon = start()
    assert serves(kubelet, 8)
    control(hang=60)
    assert daemon.says("simulated", "hang 60")
    begun = time.monotonic()
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0
    assert time.monotonic() - begun <= 2.5
    assert daemon.said("gave up on background work")
