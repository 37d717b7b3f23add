"""ListAndWatch streams that others leave open, and how streams end."""

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc
import pytest

from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.events import Displaced, ListSent, StreamsChanged
from deviceplugin.simulation.kubelet import Pod

GPU = "nvidia.com/gpu"
SLOTS = 16


@pytest.fixture
def leak(rig: Any) -> Iterator[list[Any]]:
    """Thirty streams opened beside the kubelet's one, each read once if it answers."""
    with ExitStack() as stack:
        stub = stack.enter_context(rig.plugin())
        streams = [stub.ListAndWatch(api_pb2.Empty()) for _ in range(30)]
        yield streams
        for stream in streams:
            stream.cancel()


def first(stream: Any) -> api_pb2.ListAndWatchResponse | grpc.StatusCode:
    """Read the first answer, or how the stream ended."""
    try:
        return next(stream)
    except grpc.RpcError as error:
        return error.code()


def test_leaked_streams_never_starve_allocate(rig: Any, leak: list[Any]) -> None:
    """With all slots taken more streams are refused and Allocate answers as ever."""
    answers = [first(stream) for stream in leak]
    refused = [answer for answer in answers if answer is grpc.StatusCode.RESOURCE_EXHAUSTED]
    assert len(refused) == 30 - (SLOTS - 1)
    assert rig.kubelet.admit(Pod.asking("not-starved", **{GPU: 1})).admitted
    with rig.plugin() as stub:
        request = api_pb2.AllocateRequest(container_requests=[{"devices_ids": ["gpu-1"]}])
        answers = [stub.Allocate.future(request, timeout=5) for _ in range(50)]
        assert all(answer.result().container_responses for answer in answers)


def test_a_cancelled_stream_frees_its_slot(rig: Any, leak: list[Any]) -> None:
    """The peer's cancel wakes the stream, which gives its slot and thread back at once."""
    for stream in leak:
        first(stream)
        stream.cancel()
    assert rig.record.wait(lambda: rig.record.of(StreamsChanged)[-1].open == 1)
    with rig.plugin() as stub:
        stream = stub.ListAndWatch(api_pb2.Empty())
        assert len(next(stream).devices) == 8
        stream.cancel()


def test_a_stream_of_another_client_does_not_hide_the_loss_of_the_kubelets(rig: Any) -> None:
    """A tool that listens too is no reason to believe that the kubelet still does."""
    with rig.plugin() as stub:
        other = stub.ListAndWatch(api_pb2.Empty())
        next(other)
        rig.kubelet.cut_stream(GPU)
        assert rig.kubelet.wait(lambda: rig.kubelet.allocatable().get(GPU) == 0, 5)
        assert rig.allocatable(8, timeout=3)
        assert 0 in [event.open for event in rig.record.of(StreamsChanged)]
        assert not rig.record.of(Displaced)  # found by us at once, not by the audit at last
        other.cancel()


def test_only_lists_to_the_kubelet_count(rig: Any, gpus: Any) -> None:
    """What another client was sent is not what the kubelet knows, and is not reported."""
    with rig.plugin() as stub:
        other = stub.ListAndWatch(api_pb2.Empty())
        next(other)
        rig.show(gpus(unhealthy=[0]))
        next(other)
        assert rig.allocatable(7)
        rig.show(gpus(unhealthy=[0, 1]))
        assert rig.allocatable(6)
        assert rig.record.wait(lambda: rig.record.of(ListSent)[-1].healthy == 6)
        assert [event.healthy for event in rig.record.of(ListSent)] == [8, 7, 6]
        other.cancel()


def test_all_streams_end_cleanly_at_stop(rig: Any) -> None:
    """Every open stream ends by itself, without an error, when we stop."""
    ends: queue.Queue[str] = queue.Queue()

    def read(stream: Any) -> None:
        try:
            for _ in stream:
                ends.put("list")
        except grpc.RpcError as error:
            ends.put(error.code().name)
        else:
            ends.put("ended")

    with rig.plugin() as stub:
        readers = [
            threading.Thread(target=read, args=(stub.ListAndWatch(api_pb2.Empty()),))
            for _ in range(3)
        ]
        for reader in readers:
            reader.start()
        assert [ends.get(timeout=5) for _ in readers] == ["list"] * 3
        rig.side.stop(2.0)
        assert [ends.get(timeout=5) for _ in readers] == ["ended"] * 3
        for reader in readers:
            reader.join(5)


READ_ONE_THEN_FREEZE = """
import os, signal, sys, grpc
from deviceplugin.api.v1beta1 import api_pb2, api_pb2_grpc
with grpc.insecure_channel(f"unix:{sys.argv[1]}") as channel:
    stream = api_pb2_grpc.DevicePluginStub(channel).ListAndWatch(api_pb2.Empty())
    next(stream)
    print("read", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@contextmanager
def frozen_peer(rig: Any, gpus: Any) -> Iterator[None]:
    """Fill a stream to a process that reads no more, until a send on it is stuck."""
    rig.show(gpus(4000))
    rig.up(4000)
    socket = str(rig.kubelet.plugin_dir / rig.sockets()[0])
    command = [sys.executable, "-c", READ_ONE_THEN_FREEZE, socket]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as frozen:
        try:
            assert frozen.stdout is not None
            assert frozen.stdout.readline() == "read\n"
            for count in range(1, 8):
                rig.show(gpus(4000, unhealthy=[count]))
                assert rig.record.wait(lambda sent=count: len(rig.kubelet.history) > sent)
            yield
        finally:
            frozen.kill()


def test_a_frozen_peer_is_cut_off(
    make_rig: Any, gpus: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream stuck in a send to a process that reads no more cannot hold up the stop."""
    rig = make_rig(stop_grace=0.2)
    with frozen_peer(rig, gpus):
        begun = time.monotonic()
        rig.side.stop(2.0)
        assert time.monotonic() - begun < 2
    assert "cut off" in caplog.text
    assert rig.record.wait(lambda: rig.record.of(StreamsChanged)[-1].open == 0)
    assert rig.sockets() == []


def test_a_frozen_peer_does_not_delay_a_new_kubelet(make_rig: Any, gpus: Any) -> None:
    """After a restart the old socket is given up soon: what it waits for is not the kubelet's."""
    rig = make_rig(stop_grace=30.0, stream_pause=30.0)
    with frozen_peer(rig, gpus):
        rig.kubelet.restart()
        assert rig.allocatable(3999, timeout=5)
        rig.side.stop(0.5)
