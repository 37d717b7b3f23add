"""The model on the wire."""

import pytest

from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.kubelet import wire
from deviceplugin.model import ContainerEdits, DeviceId, DeviceNode, Mount, Unit, UnitId


def unit(name: str, *, healthy: bool = True, numa_node: int | None = None) -> Unit:
    """Make one unit."""
    return Unit(
        id=UnitId(name),
        device=DeviceId(name),
        healthy=healthy,
        reason="" if healthy else "xid-79",
        numa_node=numa_node,
    )


@pytest.mark.parametrize(
    ("given", "device"),
    [
        pytest.param(unit("a"), api_pb2.Device(ID="a", health="Healthy"), id="healthy"),
        pytest.param(
            unit("a", healthy=False), api_pb2.Device(ID="a", health="Unhealthy"), id="unhealthy"
        ),
        pytest.param(
            unit("a", numa_node=0),
            api_pb2.Device(
                ID="a",
                health="Healthy",
                topology=api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=0)]),
            ),
            id="node 0",
        ),
    ],
)
def test_list(given: Unit, device: api_pb2.Device) -> None:
    """Health is the kubelet's exact word; topology is there only for a known node."""
    message = wire.list_message([given])
    assert list(message.devices) == [device]
    assert message.devices[0].HasField("topology") is (given.numa_node is not None)


def test_empty_list() -> None:
    """A resource without units is a message without devices."""
    assert wire.list_message(()).ByteSize() == 0


def test_allocate_answer() -> None:
    """Every kind of edit reaches its field."""
    edits = ContainerEdits(
        env={"NVIDIA_VISIBLE_DEVICES": "GPU-1"},
        mounts=(Mount(container_path="/in", host_path="/out", read_only=False),),
        device_nodes=(DeviceNode(container_path="/dev/nvidia0", host_path="/host/nvidia0"),),
        annotations={"cdi.k8s.io/x": "y"},
        cdi_names=("nvidia.com/gpu=GPU-1",),
    )
    (container,) = wire.allocate_response([edits]).container_responses
    assert container == api_pb2.ContainerAllocateResponse(
        envs={"NVIDIA_VISIBLE_DEVICES": "GPU-1"},
        mounts=[api_pb2.Mount(container_path="/in", host_path="/out", read_only=False)],
        devices=[
            api_pb2.DeviceSpec(
                container_path="/dev/nvidia0", host_path="/host/nvidia0", permissions="rw"
            )
        ],
        annotations={"cdi.k8s.io/x": "y"},
        cdi_devices=[api_pb2.CDIDevice(name="nvidia.com/gpu=GPU-1")],
    )


def test_requests_keep_their_order() -> None:
    """Ids come as a list for each container, empty ones included."""
    request = api_pb2.AllocateRequest(
        container_requests=[
            api_pb2.ContainerAllocateRequest(devices_ids=["b", "a"]),
            api_pb2.ContainerAllocateRequest(),
        ]
    )
    assert wire.requested(request) == [["b", "a"], []]


def test_register_request() -> None:
    """Register names a file, never a path, and the one version."""
    request = wire.register_request("x.sock", "nvidia.com/gpu")
    assert (request.version, request.endpoint) == ("v1beta1", "x.sock")
    assert request.resource_name == "nvidia.com/gpu"
    assert request.options.get_preferred_allocation_available
