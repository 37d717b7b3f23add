"""A stand-in for the plugin that served NVIDIA's GPUs on this node before ours."""

from collections.abc import Callable

from deviceplugin.simulation.machine_file import made_up_uuid
from tests.kubelet.plugin import ScriptedPlugin, device

SOCKET = "nvidia-gpu.sock"

_UUIDS = [made_up_uuid("h100x8", index) for index in range(8)]
_NODES = [0, 0, 0, 0, 1, 1, 1, 1]


def serve(plugin: Callable[..., ScriptedPlugin], replicas: int) -> ScriptedPlugin:
    """Register on the incumbent's one socket, with its ids of the simulated H100 machine.

    Whole GPUs go by their UUID, shares by ``UUID::number``.
    """
    incumbent = plugin()
    incumbent.devices = [
        device(id_, "Healthy", node)
        for uuid, node in zip(_UUIDS, _NODES, strict=True)
        for id_ in _ids(uuid, replicas)
    ]
    incumbent.up(SOCKET)
    return incumbent


def _ids(uuid: str, replicas: int) -> list[str]:
    return [uuid] if replicas == 1 else [f"{uuid}::{number}" for number in range(replicas)]
