"""Bytes of a list on the wire, counted without building it.

Field numbers and types as in ``api/v1beta1/api.proto``; all tags are one byte. The
kubelet accepts 4 MiB in one message and drops the stream of a plugin that sends more.
"""

import functools
import itertools

from deviceplugin.model import Device, ResourceView
from deviceplugin.sharing.ids import unit_id

LIMIT = 4 * 1024 * 1024
"""Bytes; the kubelet keeps gRPC's default."""

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


def list_size(view: ResourceView) -> int:
    """Bytes of the ListAndWatch answer that carries this view."""
    return sum(
        unit_size(len(unit.id.encode()), healthy=unit.healthy, numa_node=unit.numa_node)
        for unit in view.units
    )


@functools.lru_cache(maxsize=1024)
def unit_size(id_bytes: int, *, healthy: bool, numa_node: int | None) -> int:
    """Bytes of one unit in a list, its own tag and length included."""
    health = HEALTHY if healthy else UNHEALTHY
    body = _field(id_bytes) + _field(len(health)) + _topology(numa_node)
    return _field(body)


def most_bytes(device: Device, count: int) -> int:
    """Bytes of the first ``count`` shares of a device when all are Unhealthy, the longer word."""
    bounds = [0, *(10**digits for digits in range(1, len(str(max(count - 1, 0))))), count]
    return sum(
        (end - begin) * most_bytes_of(device, begin) for begin, end in itertools.pairwise(bounds)
    )


def most_bytes_of(device: Device, slot: int) -> int:
    """Bytes of one unit of a device when it is Unhealthy."""
    size = len(unit_id(device.id, slot).encode())
    return unit_size(size, healthy=False, numa_node=device.numa_node)


def _topology(numa_node: int | None) -> int:
    if numa_node is None:
        return 0
    # Proto3 leaves out a zero.
    node = 1 + _varint(numa_node) if numa_node else 0
    return _field(_field(node))


def _field(size: int) -> int:
    return 1 + _varint(size) + size


def _varint(value: int) -> int:
    return max(1, -(-value.bit_length() // 7))
