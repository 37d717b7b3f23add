"""A plugin's Allocate answer as container edits."""

from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.model import ContainerEdits, DeviceNode, Mount


def edits(answer: api_pb2.ContainerAllocateResponse) -> ContainerEdits:
    """Read one container's answer; of two with one path the first counts."""
    return ContainerEdits() | ContainerEdits(
        env=dict(answer.envs),
        annotations=dict(answer.annotations),
        mounts=tuple(_mount(each) for each in answer.mounts),
        device_nodes=tuple(_node(each) for each in answer.devices),
        cdi_names=tuple(each.name for each in answer.cdi_devices),
    )


def _mount(mount: api_pb2.Mount) -> Mount:
    return Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        read_only=mount.read_only,
    )


def _node(node: api_pb2.DeviceSpec) -> DeviceNode:
    return DeviceNode(
        container_path=node.container_path,
        host_path=node.host_path,
        permissions=node.permissions,
    )
