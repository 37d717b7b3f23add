"""Kubelet restarts, lost streams and refusals: the real process is always back."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import ChangeKind, SimulatedKubelet

GPU = "nvidia.com/gpu"
ROUNDS = 100
WARM_UP = 20  # gRPC makes some threads and files of its own in the first rounds
SPARE = 4  # that one generation is still going while the next is there

Until = Callable[..., bool]
Serves = Callable[..., bool]


class Level:
    """Whether a process holds no more than it did when it was warm."""

    def __init__(self, daemon: Any) -> None:
        self._daemon = daemon
        self._files = daemon.descriptors()
        self._threads = daemon.threads()

    def __call__(self) -> bool:
        """Compare with now."""
        files, threads = self._daemon.descriptors(), self._daemon.threads()
        return files <= self._files + SPARE and threads <= self._threads + SPARE

    def __str__(self) -> str:
        files, threads = self._daemon.descriptors(), self._daemon.threads()
        return f"files {self._files} -> {files}, threads {self._threads} -> {threads}"


def rounds(
    daemon: Any, kubelet: SimulatedKubelet, trouble: Callable[[], object], until: Until
) -> None:
    """Make trouble a hundred times; after each the daemon must be registered and listed."""
    level = None
    for round_ in range(ROUNDS):
        if round_ == WARM_UP:
            level = Level(daemon)
        seen = len(kubelet.history)
        trouble()
        back = kubelet.wait(lambda seen=seen: len(kubelet.history) > seen and has_all(kubelet))
        assert back, f"round {round_}"
    assert until(level), str(level)


def has_all(kubelet: SimulatedKubelet) -> bool:
    """Whether all eight GPUs can be had."""
    return kubelet.allocatable().get(GPU) == 8


def test_a_hundred_kubelet_restarts(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    until: Until,
    serves: Serves,
    registrations: Callable[..., list[Any]],
) -> None:
    """After each restart all GPUs are listed over one new Register; nothing piles up."""
    daemon = start()
    assert serves(each_kubelet, 8)
    rounds(daemon, each_kubelet, each_kubelet.restart, until)
    assert len(registrations(each_kubelet)) == ROUNDS + 1


def test_a_hundred_lost_streams(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    until: Until,
    serves: Serves,
    sockets: Callable[[], list[str]],
) -> None:
    """After each cut a new generation is listed, the old one's socket is gone, nothing piles up."""
    daemon = start()
    assert serves(each_kubelet, 8)
    rounds(daemon, each_kubelet, lambda: each_kubelet.cut_stream(GPU), until)
    assert len(sockets()) == 1


@pytest.mark.parametrize(
    "kubelet",
    [
        pytest.param({"era": "1.36", "disconnect_delay": 0.5}, id="1.36-sees-the-end-late"),
        pytest.param({"era": "1.37"}, id="1.37"),
    ],
    indirect=True,
)
def test_a_lost_stream_is_followed_by_a_pause(
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    registrations: Callable[..., list[Any]],
) -> None:
    """With the default pause the next Register comes no earlier than a second after the end.

    A kubelet that handles the end half a second late does not take it for the new stream's.
    """
    start(stream_pause=1)
    assert serves(kubelet, 8)
    lists, cut = len(kubelet.history), time.monotonic()
    kubelet.cut_stream(GPU)
    assert kubelet.wait(lambda: len(kubelet.history) > lists and has_all(kubelet))
    _, second = registrations(kubelet)
    assert second.at - cut >= 1.0


def test_twenty_refusals(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    sockets: Callable[[], list[str]],
) -> None:
    """Refused twenty times it tries on, each time under a new name, and is then served."""
    each_kubelet.refuse_registrations(20, "not today")
    daemon = start()
    assert serves(each_kubelet, 8)
    refusals = [each.detail for each in each_kubelet.changes if each.kind is ChangeKind.REFUSED]
    assert len(set(refusals)) == 20
    assert daemon.said("registration failed", "not today") == 1
    assert daemon.metric('registrations_total{resource="nvidia.com/gpu",result="error"}') == 20
    assert daemon.get("readyz") == (200, "ready\n")
    assert len(sockets()) == 1


def test_refusals_are_shown(
    kubelet: SimulatedKubelet, start: Callable[..., Any], until: Until
) -> None:
    """While the kubelet refuses, /readyz says so in the kubelet's words."""
    kubelet.refuse_registrations(1000, "not today")
    daemon = start()
    assert until(lambda: "not today" in daemon.get("readyz")[1])
    assert daemon.get("readyz")[0] == 503
    assert daemon.get("healthz")[0] == 200
