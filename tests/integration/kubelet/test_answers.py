"""What the RPCs answer over a real socket, good input and bad."""

import io
import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from deviceplugin import logs
from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.events import Allocated, ListSent, PreferredAnswered, StreamsChanged
from deviceplugin.kubelet import servicer
from deviceplugin.model import AllocationRules, ResourceName, Unit
from deviceplugin.simulation.kubelet import Pod

GPU = ResourceName("nvidia.com/gpu")


def asking(*containers: list[str]) -> api_pb2.AllocateRequest:
    """Ask for these ids, a list for each container."""
    return api_pb2.AllocateRequest(
        container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
    )


@pytest.fixture
def plugin(rig: Any) -> Iterator[Any]:
    """A second client of the served socket."""
    with rig.plugin() as stub:
        yield stub


def test_options(plugin: Any) -> None:
    """Preferred allocation is offered, PreStartContainer is not asked for but answered."""
    options = plugin.GetDevicePluginOptions(api_pb2.Empty())
    assert options.get_preferred_allocation_available
    assert not options.pre_start_required
    request = api_pb2.PreStartContainerRequest(devices_ids=["gpu-0"])
    assert plugin.PreStartContainer(request) == api_pb2.PreStartContainerResponse()


def test_a_pod_gets_its_devices(rig: Any) -> None:
    """A pod admitted by the kubelet carries the env and nodes of the units it was given."""
    admission = rig.kubelet.admit(Pod.asking("train", **{GPU: 2}))
    assert admission.admitted
    given = admission.devices["main"][GPU]
    assert admission.edits["main"].env["GPUS"] == ",".join(sorted(given))
    assert rig.record.wait(lambda: rig.record.of(Allocated))
    (event,) = rig.record.of(Allocated)
    assert (event.resource, set(event.units), event.refused) == (GPU, set(given), "")
    assert 0 < event.seconds < 1


@pytest.mark.parametrize(
    ("containers", "envs"),
    [
        pytest.param([], [], id="no container"),
        pytest.param([[]], [""], id="container without ids"),
        pytest.param([["gpu-1"], ["gpu-0", "gpu-2"]], ["gpu-1", "gpu-0,gpu-2"], id="two"),
        pytest.param([["gpu-3", "gpu-3"]], ["gpu-3"], id="the same id twice"),
        pytest.param([["gpu-5"], ["gpu-5"]], ["gpu-5", "gpu-5"], id="an id in two containers"),
    ],
)
def test_one_response_for_each_container(
    plugin: Any, containers: list[list[str]], envs: list[str]
) -> None:
    """Each container request gets exactly one container response, in order."""
    answer = plugin.Allocate(asking(*containers))
    assert [each.envs["GPUS"] for each in answer.container_responses] == envs


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(["gpu-99"], id="unknown id"),
        pytest.param(["gpu-0", "gpu-99"], id="one of two unknown"),
        pytest.param([f"other-{n}" for n in range(10_000)], id="ten thousand ids"),
        pytest.param([""], id="empty id"),
    ],
)
def test_unknown_ids_are_refused_in_words(rig: Any, plugin: Any, ids: list[str]) -> None:
    """An id that is not listed is refused; the text says what, and the event too."""
    with pytest.raises(grpc.RpcError) as caught:
        plugin.Allocate(asking(ids))
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert f"{GPU} has no" in caught.value.details()
    assert rig.record.wait(lambda: rig.record.of(Allocated))
    assert rig.record.of(Allocated)[0].refused == caught.value.details()


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All log lines of the test, as JSON."""
    root = logging.getLogger()
    handlers, level, stream = list(root.handlers), root.level, io.StringIO()
    logs.configure("json", "info", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def test_bytes_that_are_no_message(rig: Any, log: io.StringIO) -> None:
    """What a peer sends wrong is one plain line in the log, and the next call is answered."""
    (name,) = rig.sockets()
    with grpc.insecure_channel(f"unix:{rig.kubelet.plugin_dir / name}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/v1beta1.DevicePlugin/Allocate")(b"\xff\xff\x01", timeout=5)
        assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert rig.kubelet.admit(Pod.asking("next", **{GPU: 1})).admitted
    (line,) = [json.loads(each) for each in log.getvalue().splitlines() if "grpc" in each]
    assert (line["level"], line["message"], "exception" in line) == (
        "warning",
        "another process sent bytes that are no message",
        False,
    )


def test_a_rule_of_the_user_refuses(rig: Any, gpus: Callable[..., Any]) -> None:
    """A refusal by the config fails the pod with our words in its status."""
    rig.show(gpus(rules=AllocationRules(fail_requests_greater_than_one=True)))
    admission = rig.kubelet.admit(Pod.asking("greedy", **{GPU: 2}))
    assert not admission.admitted
    assert "failRequestsGreaterThanOne" in admission.message


def test_resource_without_view(rig: Any, plugin: Any) -> None:
    """A resource that is planned no more keeps its stream, with the empty list."""
    rig.show()
    assert rig.kubelet.wait(lambda: rig.kubelet.capacity().get(GPU) == 0)
    assert rig.record.of(StreamsChanged)[-1].open == 1
    with pytest.raises(grpc.RpcError) as caught:
        plugin.Allocate(asking(["gpu-0"]))
    assert "not served on this node now" in caught.value.details()
    assert plugin.GetPreferredAllocation(preferring(["gpu-0"], 1)).container_responses[0] == (
        api_pb2.ContainerPreferredAllocationResponse()
    )


def test_our_own_error_is_plain_words(
    rig: Any,
    plugin: Any,
    gpus: Callable[..., Any],
    broken_delivery: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A programming error becomes INTERNAL in plain words; the log has the traceback."""
    rig.show(gpus(delivery=broken_delivery))
    with pytest.raises(grpc.RpcError) as caught:
        plugin.Allocate(asking(["gpu-0"]))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "its log says why" in caught.value.details()
    assert "ZeroDivisionError" in caplog.text
    assert "ZeroDivisionError" not in caught.value.details()


def test_never_fewer_responses_than_requests(
    rig: Any, plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer with too few responses, which leaks devices in the kubelet, never leaves us."""
    monkeypatch.setattr(servicer, "allocate", lambda *_: [])
    with pytest.raises(grpc.RpcError) as caught:
        plugin.Allocate(asking(["gpu-0"]))
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert rig.record.wait(lambda: rig.record.of(Allocated)[-1].refused)


def preferring(available: list[str], size: int, must: tuple[str, ...] = ()) -> Any:
    """Ask for the best units of one container."""
    return api_pb2.PreferredAllocationRequest(
        container_requests=[
            api_pb2.ContainerPreferredAllocationRequest(
                available_deviceIDs=available, must_include_deviceIDs=must, allocation_size=size
            )
        ]
    )


def test_preferred_answers_the_size(rig: Any, plugin: Any) -> None:
    """The choice has the size asked, and what must be included."""
    answer = plugin.GetPreferredAllocation(preferring(["gpu-1", "gpu-4", "gpu-6"], 2, ("gpu-4",)))
    (chosen,) = answer.container_responses
    assert len(chosen.deviceIDs) == 2
    assert "gpu-4" in chosen.deviceIDs
    assert rig.record.wait(lambda: rig.record.of(PreferredAnswered))
    assert rig.record.of(PreferredAnswered)[0].size == 2


def test_preferred_never_fails(
    rig: Any, plugin: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of ours is an empty choice: the kubelet would fail the pod on an error."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(servicer, "preferred", fail)
    answer = plugin.GetPreferredAllocation(preferring(["gpu-1"], 1))
    assert [list(each.deviceIDs) for each in answer.container_responses] == [[]]
    assert "ZeroDivisionError" in caplog.text
    assert rig.kubelet.admit(Pod.asking("all-the-same", **{GPU: 1})).admitted


def test_only_a_list_that_differs_is_sent(rig: Any, gpus: Callable[..., Any]) -> None:
    """Each message is a checkpoint write in the kubelet: new reasons and other views send none."""
    first = gpus()
    reworded = gpus(unhealthy=[0])
    rig.show(reworded)
    assert rig.allocatable(7)
    units = (Unit(id=first.units[0].id, device="gpu-0", healthy=False, reason="new words"),)
    rig.show(
        type(first)(
            name=GPU,
            units=units + reworded.units[1:],
            devices=first.devices,
            delivery=first.delivery,
        ),
        gpus(3, name=ResourceName("nvidia.com/other")),
    )
    assert not rig.record.wait(lambda: len(rig.record.of(ListSent)) > 2, timeout=0.2)
    rig.show(gpus(unhealthy=[0, 1]))
    assert rig.allocatable(6)
    assert rig.record.wait(lambda: len(rig.record.of(ListSent)) == 3)
    assert [event.healthy for event in rig.record.of(ListSent)] == [8, 7, 6]
    assert [len(change.healthy) for change in rig.kubelet.history] == [8, 7, 6]


def test_a_change_reaches_the_kubelet_at_once(rig: Any, gpus: Callable[..., Any]) -> None:
    """From publishing an unhealthy unit to the kubelet's count: milliseconds, not polls."""
    begun = time.monotonic()
    rig.show(gpus(unhealthy=[3]))
    assert rig.allocatable(7)
    assert time.monotonic() - begun < 0.5
    assert rig.kubelet.devices(GPU)["gpu-3"] == "Unhealthy"
