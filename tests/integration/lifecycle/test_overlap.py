"""Two processes of ours, or one of ours and a stranger, for one resource name."""

import signal
from collections.abc import Callable
from typing import Any

from deviceplugin.simulation.kubelet import Pod, SimulatedKubelet

GPU = "nvidia.com/gpu"

Serves = Callable[..., bool]
Sockets = Callable[[], list[str]]
Registrations = Callable[..., list[Any]]


def test_the_second_process_waits_for_the_first(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    sockets: Sockets,
    registrations: Registrations,
) -> None:
    """It is ready, registers nothing and removes nothing until the first has ended."""
    first = start()
    assert serves(each_kubelet, 8)
    before = sockets()
    second = start()
    assert second.says("lock", "held=False", f"process {first.pid} serves nvidia here")
    assert second.says("devices found")
    code, text = second.get("readyz")
    assert code == 200
    assert text.startswith("ready; process ")
    assert second.metric("lock_held") == 0
    assert (sockets(), len(registrations(each_kubelet))) == (before, 1)
    first.send(signal.SIGTERM)
    assert first.wait() == 0
    assert each_kubelet.wait(lambda: len(registrations(each_kubelet)) == 2)
    assert serves(each_kubelet, 8)
    assert second.metric("lock_held") == 1
    assert len(sockets()) == 1


def test_the_second_process_follows_a_killed_one(
    each_kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, sockets: Sockets
) -> None:
    """The kernel gives a dead process's lock back, and its dead socket is removed."""
    first = start()
    assert serves(each_kubelet, 8)
    second = start()
    assert second.says("lock", "held=False")
    dead = sockets()
    first.kill()
    assert each_kubelet.wait(lambda: set(dead).isdisjoint(sockets()))
    assert serves(each_kubelet, 8)
    assert second.said("removed dead sockets of ours", dead[0])


def test_take_over_ends_the_first(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    registrations: Registrations,
) -> None:
    """With --take-over the first process is told to end, and the second serves."""
    first = start()
    assert serves(each_kubelet, 8)
    second = start("--take-over")
    assert first.wait() == 0
    assert second.says("asked the process that serves here to end", f"holder_pid={first.pid}")
    assert each_kubelet.wait(lambda: len(registrations(each_kubelet)) == 2)
    assert serves(each_kubelet, 8)
    assert second.running


def test_a_rival_is_outlived(
    each_kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    rival: Callable[..., Any],
) -> None:
    """A stranger's list under our name is found out and replaced, also once it leaves again."""
    daemon = start(audit_interval=0.1)
    assert serves(each_kubelet, 8)
    ours = each_kubelet.devices(GPU)
    stranger = rival("other-0", "other-1")
    assert serves(each_kubelet, 2)
    assert serves(each_kubelet, 8)
    assert daemon.said("registering anew", "other-0")
    assert daemon.metric(f'displaced_total{{resource="{GPU}"}}') >= 1
    stranger.leave()
    assert each_kubelet.wait(lambda: each_kubelet.devices(GPU) == ours)
    assert each_kubelet.wait(
        lambda: daemon.metric(f'listandwatch_streams{{resource="{GPU}"}}') == 1
    )
    assert each_kubelet.admit(Pod.asking("after", **{GPU: 8})).admitted
