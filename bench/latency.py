"""How long the kubelet waits for Allocate and GetPreferredAllocation, over the real socket."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import grpc

from bench.figures import Effort, Figure
from bench.node import GPU, GPUS, Node
from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc

_WARM_UP = 50


def allocate(effort: Effort) -> Iterable[Figure]:
    """One id of 8 to 4,000, and all 8 GPUs."""
    for replicas, size, target in ((1, 1, 0.45), (1, 8, None), (4, 1, None), (500, 1, None)):
        with _serving(replicas) as (stub, ids):
            request = api_pb2.AllocateRequest(
                container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=ids[:size])]
            )
            answer = stub.Allocate(request)
            assert len(answer.container_responses) == 1
            values = _timed(partial(stub.Allocate, request), effort.times(2000, 100))
            yield Figure(
                name=f"Allocate ({size}) of {len(ids):,} ids",
                unit="ms",
                values=values,
                target=target,
            )


def preferred(effort: Effort) -> Iterable[Figure]:
    """One of 8, and four of 32, 384 and 4,000 ids, all of them free."""
    sizes = ((1, 1, 1.0), (1, 4, None), (4, 4, None), (48, 4, None), (500, 1, None), (500, 4, 3.0))
    for replicas, size, target in sizes:
        with _serving(replicas) as (stub, ids):
            request = api_pb2.PreferredAllocationRequest(
                container_requests=[
                    api_pb2.ContainerPreferredAllocationRequest(
                        available_deviceIDs=ids, allocation_size=size
                    )
                ]
            )
            answer = stub.GetPreferredAllocation(request)
            assert len(answer.container_responses[0].deviceIDs) == size
            calls = effort.times(1000, 50)
            values = _timed(partial(stub.GetPreferredAllocation, request), calls)
            yield Figure(
                name=f"GetPreferredAllocation ({size}) of {len(ids):,} ids",
                unit="ms",
                values=values,
                target=target,
            )


@contextmanager
def _serving(replicas: int) -> Iterator[tuple[api_pb2_grpc.DevicePluginStub, Sequence[str]]]:
    with Node(replicas=replicas) as node:
        ids = sorted(node.kubelet.devices(GPU))
        assert len(ids) == GPUS * replicas
        with grpc.insecure_channel(f"unix://{node.plugin_socket()}") as channel:
            yield api_pb2_grpc.DevicePluginStub(channel), ids


def _timed(call: Callable[[], object], times: int) -> list[float]:
    for _ in range(_WARM_UP):
        call()
    return [_milliseconds(call) for _ in range(times)]


def _milliseconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e3
