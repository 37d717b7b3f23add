"""Health, topology and order of what is listed."""

from collections.abc import Callable
from typing import Any

import pytest

from deviceplugin import events as ev
from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.config.rules import HealthPolicy
from deviceplugin.model import Action, BackendState, Device, DeviceId, ResourceName, ResourceView
from deviceplugin.sharing.size import list_size

GPU = ResourceName("nvidia.com/gpu")


def xid79(node: Any, device: str = "GPU-0") -> ev.Symptom:
    """The GPU fell off its bus."""
    return ev.Symptom(
        device=DeviceId(device),
        kind="xid-79",
        detail="fell off the bus",
        action=Action.REBOOT,
        at=node.now,
    )


def test_units_are_sorted_by_device_then_share(new_node: Callable[..., Any]) -> None:
    """The order is that of people: device index, then share number, not that of texts."""
    node = new_node(gpus=11).share(2)
    ids = [unit for unit in node.listed() if "::" in unit]
    assert ids[:5] == ["GPU-0::1", "GPU-1::1", "GPU-2::1", "GPU-3::1", "GPU-4::1"]
    assert ids[-1] == "GPU-10::1"
    node.answer()
    assert node.healthy()[:3] == ["GPU-0::0", "GPU-0::1", "GPU-1::0"]


def test_fault_makes_all_shares_unhealthy(new_node: Callable[..., Any]) -> None:
    """A fault of a device is the fault of each of its units, and of no other."""
    node = new_node(gpus=2).answer().share(2).fold()
    node.fold(xid79(node))
    assert node.healthy() == ["GPU-1::0", "GPU-1::1"]
    assert node.reasons()["GPU-0::0"] == "xid-79: fell off the bus"


def test_what_is_wrong_is_said_rather_than_that_it_is_gone(
    new_node: Callable[..., Any], device: Callable[..., Device]
) -> None:
    """A lost GPU drops out of the scan as well; the reason that people can act on stays."""
    node = new_node(gpus=2)
    node.fold(xid79(node)).scan(device(1))
    assert node.reasons()["GPU-0"] == "xid-79: fell off the bus"


def test_config_edit_heals_what_it_ignores(new_node: Callable[..., Any]) -> None:
    """Declaring a kind harmless takes its standing faults back at once."""
    node = new_node()
    node.fold(xid79(node))
    assert node.healthy() == []
    node.config(health=HealthPolicy(overrides={"xid-79": Action.IGNORE}))
    assert node.healthy() == ["GPU-0"]


def test_fault_of_the_parent_is_the_partitions(
    bare_node: Callable[..., Any], device: Callable[..., Device]
) -> None:
    """A partition is as sick as the device that it is a part of."""
    node = bare_node().config().scan(device(0, id=DeviceId("MIG-1"), parent=DeviceId("GPU-0")))
    node.fold(xid79(node))
    assert node.reasons() == {"MIG-1": "xid-79: fell off the bus"}


@pytest.mark.parametrize(
    ("state", "healthy"),
    [
        pytest.param(BackendState.NO_DRIVER, [], id="driver-unloaded"),
        pytest.param(BackendState.NO_LIBRARY, [], id="library-gone"),
        pytest.param(BackendState.NO_DEVICES, [], id="no-devices"),
        pytest.param(BackendState.MONITOR_LOST, ["GPU-0"], id="monitor-lost"),
        pytest.param(BackendState.DRIVER_HUNG, ["GPU-0"], id="driver-hung"),
        pytest.param(BackendState.DRIVER_MISMATCH, ["GPU-0"], id="driver-mismatch"),
    ],
)
def test_backend_state(
    new_node: Callable[..., Any], state: BackendState, healthy: list[str]
) -> None:
    """No driver, no working device; no monitor, no news: devices keep their verdict."""
    node = new_node().fold(ev.BackendChanged(state=state, detail="says so", at=1.0))
    assert node.healthy() == healthy
    assert node.listed() == ["GPU-0"]


def test_scan_after_the_driver_came_back(new_node: Callable[..., Any]) -> None:
    """A scan that ends well proves that the driver works."""
    node = new_node().fold(
        ev.BackendChanged(state=BackendState.NO_DRIVER, detail="unloaded", at=1.0)
    )
    assert node.reasons() == {"GPU-0": "driver-not-loaded: unloaded"}
    node.scan(*node.devices)
    assert node.healthy() == ["GPU-0"]


def test_unmet_delivery_lists_all_unhealthy(new_node: Callable[..., Any]) -> None:
    """What cannot be handed out is listed with the reason, and shows as unmet."""
    node = new_node(unmet="waiting for CDI spec")
    assert node.reasons() == {"GPU-0": "waiting for CDI spec"}
    assert [str(unmet) for unmet in node.outcome.unmet] == [f"{GPU}: waiting for CDI spec"]
    node.unmet = ""
    assert node.plan().healthy() == ["GPU-0"]


@pytest.mark.parametrize(
    ("nodes", "shown"),
    [
        pytest.param([0, 1], [0, 1], id="all-known"),
        pytest.param([0, None], [None, None], id="one-unknown"),
        pytest.param([None, None], [None, None], id="none-known"),
    ],
)
def test_topology_is_all_or_none(
    bare_node: Callable[..., Any],
    device: Callable[..., Device],
    nodes: list[int | None],
    shown: list[int | None],
) -> None:
    """One device without a NUMA node takes it from all: the kubelet would never count it."""
    node = bare_node().config()
    node.scan(*(device(index, numa_node=numa) for index, numa in enumerate(nodes)))
    assert [unit.numa_node for unit in node.views[GPU].units] == shown


def test_missing_and_foreign_units_do_not_count_for_topology(
    bare_node: Callable[..., Any], device: Callable[..., Device]
) -> None:
    """A missing device keeps its node, and units nobody knows take it from no other."""
    node = bare_node().config().scan(device(0), device(1, numa_node=None), device(2))
    node.pods = {GPU: {"GPU-old"}}
    node.answer().scan(device(0))
    assert {unit.id: unit.numa_node for unit in node.views[GPU].units} == {
        "GPU-0": 0,
        "GPU-1": None,
        "GPU-2": 0,
        "GPU-old": None,
    }


def test_view_names_the_devices_present(new_node: Callable[..., Any]) -> None:
    """A delivery is made for the devices of its resource that are here."""
    node = new_node(gpus=3)
    node.scan(node.devices[0], node.devices[2])
    view = node.views[GPU]
    assert list(view.devices) == ["GPU-0", "GPU-2"]
    assert view.delivery.devices == ("GPU-0", "GPU-2")


def wire(view: ResourceView) -> int:
    """Bytes that the protocol's own encoder makes of a list."""
    answer = api_pb2.ListAndWatchResponse()
    for unit in view.units:
        entry = answer.devices.add(ID=unit.id, health="Healthy" if unit.healthy else "Unhealthy")
        if unit.numa_node is not None:
            entry.topology.nodes.add(ID=unit.numa_node)
    return answer.ByteSize()


@pytest.mark.parametrize(
    ("replicas", "numa"),
    [
        pytest.param(1, None, id="whole-no-node"),
        pytest.param(1, 0, id="node-zero"),
        pytest.param(1200, 1, id="many-shares"),
        pytest.param(3, 128, id="two-byte-node"),
    ],
)
@pytest.mark.parametrize("length", [5, 40, 90, 200])
def test_list_size_is_what_the_encoder_makes(
    bare_node: Callable[..., Any],
    device: Callable[..., Device],
    replicas: int,
    numa: int | None,
    length: int,
) -> None:
    """Bytes counted without protobuf are the bytes sent, whatever ids, health and nodes."""
    node = bare_node().config()
    made = (device(n, id=DeviceId(f"{n}" * length), numa_node=numa) for n in range(2))
    node.scan(*made).share(replicas)
    node.fold(xid79(node, "0" * length))
    assert list_size(node.views[GPU]) == wire(node.views[GPU])
