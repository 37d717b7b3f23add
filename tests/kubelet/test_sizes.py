"""How many devices a kubelet takes, and where a list is too long for it."""

import pytest

from deviceplugin.api.v1beta1 import api_pb2
from tests.kubelet.node import GPU, Container, Counts, Kubelet
from tests.kubelet.plugin import Plugins, device, gpus
from tests.kubelet.until import until

LIMIT = 4 * 1024 * 1024
"""Bytes of one message; gRPC's own limit, which no kubelet raises."""


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_long_lists_are_taken(kubelet: Kubelet, plugin: Plugins, count: int) -> None:
    """All are listed, and a flip among them is followed."""
    gpu = plugin()
    gpu.devices = gpus(count)
    gpu.up("a.sock")
    kubelet.wait(allocatable=count, capacity=count)
    gpu.push(gpus(count, unhealthy=[count - 1]))
    kubelet.wait(allocatable=count - 1, capacity=count)


def test_four_thousand_ids_in_one_pod(kubelet: Kubelet, plugin: Plugins) -> None:
    """One Allocate names all of them, they are held over a restart, and none is left."""
    gpu = plugin()
    gpu.devices = gpus(4_000)
    gpu.up("a.sock")
    kubelet.wait(allocatable=4_000)
    assert kubelet.admit("all", Container(limits={GPU: 4_000})).admitted
    (request,) = gpu.called("Allocate")
    assert len(request.container_requests[0].devices_ids) == 4_000
    assert not kubelet.admit("more", Container(limits={GPU: 1})).admitted
    edits = kubelet.start_container("all")
    assert [each.admitted for each in kubelet.restart() if each.pod.name == "all"] == [True]
    assert kubelet.start_container("all") == edits
    assert len(kubelet.held()["all"]["main"][GPU]) == 4_000


def test_a_list_just_within_the_limit(kubelet: Kubelet, plugin: Plugins) -> None:
    """A message of the limit to the byte is taken."""
    gpu = plugin()
    gpu.devices = _filling(LIMIT)
    gpu.up("a.sock")
    kubelet.wait(allocatable=len(gpu.devices), capacity=len(gpu.devices))


@pytest.mark.parametrize("first", [True, False], ids=["as the first list", "after a good list"])
def test_a_list_over_the_limit_loses_the_stream(
    kubelet: Kubelet, plugin: Plugins, *, first: bool
) -> None:
    """One byte more: the stream is cancelled and not opened again; what was known is unhealthy."""
    gpu = plugin()
    if first:
        gpu.devices = _filling(LIMIT + 1)
        gpu.up("a.sock")
    else:
        gpu.listed(kubelet, "a.sock")
        gpu.push(_filling(LIMIT + 1))
        kubelet.wait(allocatable=0, capacity=8)
    assert until(lambda: gpu.called("ListAndWatch") and not gpu.open_streams())
    after = Counts(allocatable=None, capacity=0) if first else Counts(allocatable=0, capacity=8)
    assert until(lambda: kubelet.counts() == after), kubelet.counts()
    assert kubelet.alive()
    gpu.devices = gpus(8)
    gpu.listed(kubelet, "b.sock")
    assert len(gpu.called("ListAndWatch")) == 2


def _filling(size: int) -> list[api_pb2.Device]:
    """Devices whose list is of so many bytes."""
    devices = [device(f"gpu-{n}-{'x' * 1_000}") for n in range(size // 1_100)]
    for _ in range(2):  # the second time the lengths' own lengths stay as they are
        missing = size - api_pb2.ListAndWatchResponse(devices=devices).ByteSize()
        devices[-1].ID = "x" * (len(devices[-1].ID) + missing)
    assert api_pb2.ListAndWatchResponse(devices=devices).ByteSize() == size
    return devices
