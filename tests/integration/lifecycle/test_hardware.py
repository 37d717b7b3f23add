"""Faults, hot-plug and the driver's coming and going, seen from the kubelet."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import ChangeKind, Pod, SimulatedKubelet

GPU = "nvidia.com/gpu"

LATE = """
nvidia: {gpus: {count: 1}}
timeline:
  - {at: 0, driver: gone}
  - {at: 1.5, driver: back}
"""

Serves = Callable[..., bool]


@pytest.mark.parametrize(
    ("step", "reason", "remedy"),
    [
        pytest.param({"lost": 3}, "lost", {"recover": 3}, id="poll-sees-it"),
        pytest.param({"xid": 48, "gpu": 3}, "xid-48", {"reset": 3}, id="driver-reports-it"),
    ],
)
def test_a_fault_is_listed_and_healed(
    step: dict[str, Any],
    reason: str,
    remedy: dict[str, Any],
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    control: Any,
    hears: Callable[[Any], bool],
    record_property: Callable[[str, object], None],
) -> None:
    """The kubelet has it Unhealthy within 1.1 s; once it is good again it is given out again."""
    daemon = start()
    assert serves(kubelet, 8)
    assert hears(daemon)
    happened = control(**step)
    assert serves(kubelet, 7)
    took = kubelet.history[-1].at - happened
    record_property("milliseconds", round(took * 1000))
    assert took <= 1.1
    assert len(kubelet.history[-1].ids) == 8
    assert daemon.says("device is unhealthy", f"reason={reason}")
    assert daemon.get("readyz")[0] == 200
    control(**remedy)
    assert serves(kubelet, 8)
    assert daemon.says("device is healthy again")
    assert not [each for each in kubelet.changes if each.kind is ChangeKind.STREAM_ENDED]


def test_a_gpu_that_recovers_by_itself(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, control: Any
) -> None:
    """A GPU that answers again is given out after the hold, and not before."""
    start(recovery_hold=1, health_poll=0.1, rescan=60)
    assert serves(kubelet, 8)
    control(error=999, gpu=3)
    assert serves(kubelet, 7)
    healed = control(recover=3)
    assert serves(kubelet, 8)
    assert 0.6 <= kubelet.history[-1].at - healed <= 3.0


def test_every_share_follows_its_gpu(
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    control: Any,
    config: Any,
    sharing: Callable[..., str],
) -> None:
    """All shares of a lost GPU turn Unhealthy in one list, and no other."""
    config.write(sharing(replicas=4))
    start(health_poll=0.1)
    assert serves(kubelet, 32)
    lists = len(kubelet.history)
    control(lost=3)
    assert serves(kubelet, 28)
    (news,) = kubelet.history[lists:]
    assert len({each.partition("::")[0] for each in news.ids - news.healthy}) == 1


def test_a_hanging_driver_hinders_nobody(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, control: Any
) -> None:
    """While driver calls hang, Allocate answers, the list stays, and the state has a name."""
    daemon = start(scan_hung=0.3)
    assert serves(kubelet, 8)
    control(hang=2)
    assert kubelet.wait(lambda: daemon.metric('backend_state{state="driver-hung"}') == 1)
    for number in range(50):
        admission = kubelet.admit(Pod.asking(f"pod{number}", **{GPU: 8}))
        assert admission.admitted, admission.message
        assert admission.seconds <= 0.5
        kubelet.remove(f"pod{number}")
    assert daemon.metric('backend_state{state="driver-hung"}') == 1
    assert daemon.get("healthz")[0] == 200
    assert kubelet.wait(lambda: daemon.metric('backend_state{state="ready"}') == 1)
    assert {len(each.healthy) for each in kubelet.history} == {8}


def test_a_gpu_is_unplugged_and_comes_back(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, control: Any
) -> None:
    """Unplugged it stays listed, Unhealthy: a pod may hold it. Plugged in it is given out."""
    daemon = start()
    assert serves(kubelet, 8)
    ids = kubelet.history[-1].ids
    control(unplug=5)
    assert serves(kubelet, 7)
    assert daemon.metric(f'devices{{resource="{GPU}",state="missing"}}') == 1
    control(plug=5)
    assert serves(kubelet, 8)
    assert all(each.ids == ids for each in kubelet.history)


def test_the_driver_goes_and_comes_back(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, control: Any
) -> None:
    """Without a driver all is Unhealthy and listed; the process lives; then all is well again."""
    daemon = start()
    assert serves(kubelet, 8)
    ids = kubelet.history[-1].ids
    control(driver="gone")
    assert serves(kubelet, 0)
    assert daemon.says("driver state", "driver-not-loaded")
    assert (daemon.get("readyz")[0], daemon.get("healthz")[0]) == (200, 200)
    control(driver="back")
    assert serves(kubelet, 8)
    assert all(each.ids == ids for each in kubelet.history)


def test_a_driver_that_comes_late(
    kubelet: SimulatedKubelet, start: Callable[..., Any], serves: Serves, root: Path
) -> None:
    """A node whose driver is loaded after our start is served within seconds."""
    machine = root / "late.yaml"
    machine.write_text(LATE)
    daemon = start(machine=str(machine))
    assert daemon.says("driver state", "driver-not-loaded")
    assert daemon.get("readyz")[0] == 200
    back = time.monotonic()
    assert serves(kubelet, 1)
    assert time.monotonic() - back <= 5.0


def test_no_hardware_is_a_normal_state(
    kubelet: SimulatedKubelet, start: Callable[..., Any]
) -> None:
    """Without a GPU nothing is registered, and the process is ready and alive."""
    daemon = start(machine="none")
    assert daemon.says("driver state", "state=no-")
    nothing = "ready; nothing to serve: driver no-"
    assert kubelet.wait(lambda: daemon.get("readyz")[1].startswith(nothing))
    assert daemon.get("healthz")[0] == 200
    assert not kubelet.allocatable()
