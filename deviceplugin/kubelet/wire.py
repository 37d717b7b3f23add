"""Model to protobuf and back, and nothing else."""

from collections.abc import Iterable, Sequence
from functools import cache

from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.model import ContainerEdits, DeviceNode, Mount, Unit, UnitId

VERSION = "v1beta1"
"""The only version a kubelet accepts in Register."""

OPTIONS = api_pb2.DevicePluginOptions(
    pre_start_required=False, get_preferred_allocation_available=True
)


def list_message(units: Iterable[Unit]) -> api_pb2.ListAndWatchResponse:
    """Make the whole list of a resource; about a microsecond for each unit."""
    message = api_pb2.ListAndWatchResponse()
    for unit in units:
        health = "Healthy" if unit.healthy else "Unhealthy"
        if unit.numa_node is None:
            # A topology that names no real node would match no pod under a NUMA policy.
            message.devices.add(ID=unit.id, health=health)
        else:
            message.devices.add(ID=unit.id, health=health, topology=_topology(unit.numa_node))
    return message


@cache
def _topology(node: int) -> api_pb2.TopologyInfo:
    # Copied into each device: making it anew is most of the work of a long list.
    return api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=node)])


def requested(request: api_pb2.AllocateRequest) -> list[list[UnitId]]:
    """Ids asked for, a list for each container."""
    return [[UnitId(i) for i in each.devices_ids] for each in request.container_requests]


def allocate_response(edits: Sequence[ContainerEdits]) -> api_pb2.AllocateResponse:
    """Make one container response for each value, in order."""
    return api_pb2.AllocateResponse(container_responses=[_container(each) for each in edits])


def _container(edits: ContainerEdits) -> api_pb2.ContainerAllocateResponse:
    return api_pb2.ContainerAllocateResponse(
        envs=edits.env,
        mounts=[_mount(each) for each in edits.mounts],
        devices=[_node(each) for each in edits.device_nodes],
        annotations=edits.annotations,
        cdi_devices=[api_pb2.CDIDevice(name=name) for name in edits.cdi_names],
    )


def _mount(mount: Mount) -> api_pb2.Mount:
    return api_pb2.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        read_only=mount.read_only,
    )


def _node(node: DeviceNode) -> api_pb2.DeviceSpec:
    return api_pb2.DeviceSpec(
        container_path=node.container_path,
        host_path=node.host_path,
        permissions=node.permissions,
    )


def preferred_response(chosen: Iterable[Iterable[UnitId]]) -> api_pb2.PreferredAllocationResponse:
    """Make one container response for each choice, in order."""
    return api_pb2.PreferredAllocationResponse(
        container_responses=[
            api_pb2.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in chosen
        ]
    )


def register_request(endpoint: str, resource: str) -> api_pb2.RegisterRequest:
    """Ask to be dialled back at ``endpoint``, a file name in the plugin folder."""
    return api_pb2.RegisterRequest(
        version=VERSION, endpoint=endpoint, resource_name=resource, options=OPTIONS
    )
