"""Who holds what: asked of PodResources, at the right times."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from deviceplugin.api.podresources.v1 import api_pb2, api_pb2_grpc
from deviceplugin.events import Displaced, HoldersAnswered, HoldersUnavailable, RegistrationTried
from deviceplugin.kubelet.podresources import PodResources
from deviceplugin.simulation.kubelet import ChangeKind, Pod, SimulatedKubelet

GPU = "nvidia.com/gpu"


class OddLister(api_pb2_grpc.PodResourcesListerServicer):
    """Lists a device of two NUMA nodes twice; may be busy a few times, or slow."""

    def __init__(self) -> None:
        self.busy = 0
        self.delay = 0.0
        self.calls = 0

    def List(  # noqa: N802 - the RPC's name
        self, request: api_pb2.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> api_pb2.ListPodResourcesResponse:
        """One pod, two containers."""
        del request
        self.calls += 1
        if self.busy:
            self.busy -= 1
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        ended = threading.Event()
        context.add_callback(ended.set)
        ended.wait(self.delay)
        devices = [
            api_pb2.ContainerDevices(
                resource_name=GPU,
                device_ids=["gpu-0"],
                topology=api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=node)]),
            )
            for node in (0, 1)
        ]
        other = api_pb2.ContainerDevices(resource_name="other.com/nic", device_ids=["nic-0"])
        containers = [
            api_pb2.ContainerResources(name="a", devices=devices),
            api_pb2.ContainerResources(name="b", devices=[other]),
        ]
        pod = api_pb2.PodResources(name="p", namespace="n", containers=containers)
        return api_pb2.ListPodResourcesResponse(pod_resources=[pod])

    def GetAllocatableResources(  # noqa: N802 - the RPC's name
        self, request: api_pb2.AllocatableResourcesRequest, context: grpc.ServicerContext
    ) -> api_pb2.AllocatableResourcesResponse:
        """Two healthy GPUs."""
        del request, context
        return api_pb2.AllocatableResourcesResponse(
            devices=[
                api_pb2.ContainerDevices(resource_name=GPU, device_ids=[name])
                for name in ("gpu-0", "gpu-1")
            ]
        )

    def Get(  # noqa: N802 - the RPC's name
        self, request: api_pb2.GetPodResourcesRequest, context: grpc.ServicerContext
    ) -> api_pb2.GetPodResourcesResponse:
        """Nobody asks."""
        raise NotImplementedError


@pytest.fixture
def lister(root: Path) -> Iterator[OddLister]:
    """Serve it at ``root/pr.sock``."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    odd = OddLister()
    api_pb2_grpc.add_PodResourcesListerServicer_to_server(odd, server)
    server.add_insecure_port(f"unix:{root}/pr.sock")
    server.start()
    yield odd
    server.stop(None).wait(5)


def test_answer_by_resource(lister: OddLister, root: Path) -> None:
    """Ids come by resource over all pods; a device of two NUMA nodes counts once."""
    before = time.monotonic()
    answer = PodResources(root / "pr.sock").ask(5.0)
    assert lister.calls == 1
    assert isinstance(answer, HoldersAnswered)
    assert answer.held == {GPU: {"gpu-0"}, "other.com/nic": {"nic-0"}}
    assert answer.allocatable == {GPU: {"gpu-0", "gpu-1"}}
    assert before <= answer.begun <= answer.at


def test_busy_kubelet_is_asked_again(lister: OddLister, root: Path) -> None:
    """A kubelet over its rate limit is asked again, within the time limit."""
    lister.busy = 2
    assert isinstance(PodResources(root / "pr.sock").ask(5.0), HoldersAnswered)
    assert lister.calls == 3


@pytest.mark.parametrize(
    ("busy", "delay", "words"),
    [
        pytest.param(1000, 0.0, "RESOURCE_EXHAUSTED", id="always busy"),
        pytest.param(0, 5.0, "DEADLINE_EXCEEDED", id="slow"),
    ],
)
def test_the_deadline_is_ours(
    lister: OddLister, root: Path, busy: int, delay: float, words: str
) -> None:
    """Whatever the kubelet does, the question ends in time and says how."""
    lister.busy, lister.delay = busy, delay
    begun = time.monotonic()
    answer = PodResources(root / "pr.sock").ask(0.5)
    assert time.monotonic() - begun < 2
    assert isinstance(answer, HoldersUnavailable)
    assert words in answer.why


def test_no_socket_is_unavailable(root: Path) -> None:
    """Without the socket the answer says so, naming the path."""
    answer = PodResources(root / "none.sock").ask(1.0)
    assert isinstance(answer, HoldersUnavailable)
    assert str(root / "none.sock") in answer.why


def test_held_units_are_polled(rig: Any) -> None:
    """Polls tell what a pod holds, and that it holds it no more once it is gone."""
    admission = rig.kubelet.admit(Pod.asking("holder", **{GPU: 2}))
    given = set(admission.devices["main"][GPU])
    assert rig.record.wait(lambda: last(rig).held.get(GPU) == given)
    rig.kubelet.remove("holder")
    assert rig.record.wait(lambda: not last(rig).held.get(GPU))
    assert len(last(rig).allocatable[GPU]) == 8


def last(rig: Any) -> HoldersAnswered:
    """Look up the newest answer."""
    answers = rig.record.of(HoldersAnswered)
    return answers[-1] if answers else HoldersAnswered(begun=0, held={}, allocatable={}, at=0)


def test_asked_at_once_on_request(make_rig: Callable[..., Any]) -> None:
    """A request is answered now, however long the pace is."""
    rig = make_rig(holders_poll=60.0).up()
    assert rig.record.wait(lambda: rig.record.of(HoldersAnswered))
    before = len(rig.record.of(HoldersAnswered))
    asked = time.monotonic()
    rig.side.ask_holders()
    assert rig.record.wait(lambda: len(rig.record.of(HoldersAnswered)) == before + 1)
    assert last(rig).begun >= asked


def test_asked_often_while_draining(make_rig: Callable[..., Any]) -> None:
    """While something drains the pace is the quick one, and slow again afterwards."""
    rig = make_rig(holders_poll=60.0, holders_poll_draining=0.05).up()
    rig.side.pace(draining=True)
    assert rig.record.wait(lambda: len(rig.record.of(HoldersAnswered)) >= 4)
    rig.side.pace(draining=False)
    begun = last(rig).begun
    rig.side.ask_holders()
    assert rig.record.wait(lambda: last(rig).begun > begun)


def test_not_asked_without_anything_to_hold(make_rig: Callable[..., Any]) -> None:
    """With no unit known nobody is asked; as soon as there is one, it begins."""
    rig = make_rig()
    rig.side.start()
    rig.side.ask_holders()
    rig.side.pace(draining=True)
    assert not rig.record.wait(lambda: rig.record.of(HoldersAnswered), timeout=0.3)
    rig.side.watch(active=True)
    assert rig.record.wait(lambda: rig.record.of(HoldersAnswered))
    rig.side.watch(active=False)


def test_what_is_served_is_watched(make_rig: Callable[..., Any]) -> None:
    """Served resources are asked about even when nothing else is known."""
    rig = make_rig(holders_poll=0.05).up()
    rig.side.watch(active=False)
    before = len(rig.record.of(HoldersAnswered))
    assert rig.record.wait(lambda: len(rig.record.of(HoldersAnswered)) > before + 2)


def test_unavailable_then_available(
    make_rig: Callable[..., Any], kubelet: SimulatedKubelet, caplog: pytest.LogCaptureFixture
) -> None:
    """A kubelet that is away is an event at each poll and one line in the log."""
    rig = make_rig(holders_poll=0.05).up()
    kubelet.stop()
    assert rig.record.wait(lambda: len(rig.record.of(HoldersUnavailable)) >= 3)
    assert caplog.text.count("no unit is dropped") == 1
    kubelet.start()
    before = len(rig.record.of(HoldersAnswered))
    assert rig.record.wait(lambda: len(rig.record.of(HoldersAnswered)) > before)


def test_ask_once(make_rig: Callable[..., Any], kubelet: SimulatedKubelet) -> None:
    """The one question at the start needs nothing started, and has its deadline."""
    rig = make_rig()
    assert isinstance(rig.side.ask_once(5.0), HoldersAnswered)
    kubelet.stop()
    begun = time.monotonic()
    assert isinstance(rig.side.ask_once(0.5), HoldersUnavailable)
    assert time.monotonic() - begun < 2


def test_rival_is_found_and_displaced(make_rig: Callable[..., Any], gpus: Any) -> None:
    """Another plugin under our resource name: found by its ids, and we register anew."""
    rig = make_rig(holders_poll=0.1).up()
    rival = make_rig(vendor="rival", audit_interval=60.0)
    rival.show(gpus(3))
    rival.side.start()
    rival.side.serve([GPU])
    assert rig.allocatable(3)
    assert rig.record.wait(lambda: rig.record.of(Displaced))
    assert rig.record.of(Displaced)[0].resource == GPU
    assert "5 (gpu-3, gpu-4, gpu-5, …) of our healthy units" in rig.record.of(Displaced)[0].detail
    rival.side.stop(2.0)
    assert rig.allocatable(8)
    assert len(rig.record.of(Displaced)) == 1, "at most one repair in five minutes"


def test_audit_leaves_a_sound_registration_alone(
    make_rig: Callable[..., Any], gpus: Callable[..., Any]
) -> None:
    """Over many polls and changing lists nothing is displaced and nothing registered again."""
    rig = make_rig(holders_poll=0.02, audit_settle=0.05).up()
    for round_ in range(20):
        rig.show(gpus(unhealthy=range(round_ % 8)))
        before = len(rig.record.of(HoldersAnswered))
        assert rig.record.wait(lambda seen=before: len(rig.record.of(HoldersAnswered)) > seen + 2)
    assert rig.record.of(Displaced) == []
    assert len(rig.record.of(RegistrationTried)) == 1
    registered = [c for c in rig.kubelet.changes if c.kind is ChangeKind.REGISTERED]
    assert len(registered) == 1


def test_a_path_that_no_socket_can_have_is_said_before_dialling(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A path over the limit is our own plain reason, and gRPC's core prints nothing."""
    answer = PodResources(tmp_path / ("x" * 120)).ask(1.0)
    assert isinstance(answer, HoldersUnavailable)
    assert "--pod-resources" in answer.why
    assert capfd.readouterr().err == ""
