"""Pods: chosen devices, the plugin's part in it, and what failure leaves behind."""

import threading
from typing import Any

import pytest

from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.model import ContainerEdits, DeviceNode, Mount
from deviceplugin.simulation.kubelet import (
    Container,
    ContainerStartError,
    KubeletCrashedError,
    KubeletStoppedError,
    Pod,
    SimulatedKubelet,
)

GPU = "nvidia.com/gpu"
NIC = "rdma/nic"


@pytest.fixture
def ready(kubelet: SimulatedKubelet, plugin: Any) -> SimulatedKubelet:
    """A kubelet with eight devices allocatable."""
    plugin.up("a.sock")
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 8})
    return kubelet


def _gpus(name: str, count: int = 1) -> Pod:
    return Pod.asking(name, **{GPU: count})


def _raise(text: str) -> Any:
    def answer(_: object) -> None:
        raise RuntimeError(text)

    return answer


def _preferring(*ids: str) -> Any:
    reply = api_pb2.ContainerPreferredAllocationResponse(deviceIDs=ids)
    return lambda _: api_pb2.PreferredAllocationResponse(container_responses=[reply])


def test_devices_and_edits(ready: SimulatedKubelet, plugin: Any) -> None:
    """A pod gets distinct devices, one Allocate per container, and the answer's edits."""
    first, second = ready.admit(_gpus("a", 2)), ready.admit(_gpus("b", 6))
    assert first.admitted
    assert second.admitted
    ids = first.devices["main"][GPU]
    assert set(ids).isdisjoint(second.devices["main"][GPU])
    assert first.edits["main"].env == {"IDS": ",".join(ids)}
    asked = plugin.named("allocate")[0].container_requests
    assert [sorted(each.devices_ids) for each in asked] == [list(ids)]
    assert ready.pods()["a"] == {"main": {GPU: ids}}


def test_answer_is_read_whole(ready: SimulatedKubelet, plugin: Any) -> None:
    """Each field of an answer arrives; of two entries with one path the first counts."""
    reply = api_pb2.ContainerAllocateResponse(
        envs={"A": "1"},
        annotations={"k": "v"},
        mounts=[
            api_pb2.Mount(container_path="/m", host_path="/h", read_only=True),
            api_pb2.Mount(container_path="/m", host_path="/other"),
        ],
        devices=[api_pb2.DeviceSpec(container_path="/dev/x", host_path="/dev/y", permissions="rw")],
        cdi_devices=[api_pb2.CDIDevice(name="v/c=0"), api_pb2.CDIDevice(name="v/c=0")],
    )
    plugin.answers["allocate"] = lambda _: api_pb2.AllocateResponse(container_responses=[reply])
    assert ready.admit(_gpus("a")).edits["main"] == ContainerEdits(
        env={"A": "1"},
        annotations={"k": "v"},
        mounts=(Mount(container_path="/m", host_path="/h", read_only=True),),
        device_nodes=(DeviceNode(container_path="/dev/x", host_path="/dev/y"),),
        cdi_names=("v/c=0",),
    )


def test_two_resources_in_random_order(ready: SimulatedKubelet, plugin: Any) -> None:
    """Resources of one container are served in either order, and their edits are merged."""
    nics = type(plugin)(plugin.folder, NIC)
    nics.devices = [api_pb2.Device(ID=f"nic-{n}", health="Healthy") for n in range(8)]
    nics.up("nic.sock")
    assert ready.wait(lambda: ready.allocatable() == {GPU: 8, NIC: 8})
    order: list[str] = []
    for each in (plugin, nics):
        reply = api_pb2.ContainerAllocateResponse(envs={each.resource: "here"})

        def answer(_: object, name: str = each.resource, reply: Any = reply) -> Any:
            order.append(name)
            return api_pb2.AllocateResponse(container_responses=[reply])

        each.answers["allocate"] = answer
    for number in range(8):
        admission = ready.admit(Pod.asking(f"p{number}", **{GPU: 1, NIC: 1}))
        assert admission.edits["main"].env == {GPU: "here", NIC: "here"}
    assert {order[n] for n in range(0, 16, 2)} == {GPU, NIC}
    nics.close()


def test_unknown_resource_is_skipped(ready: SimulatedKubelet) -> None:
    """A resource nobody registered is not missed: the pod runs without the device."""
    admission = ready.admit(Pod.asking("a", **{"example.com/unheard-of": 1}))
    assert (admission.admitted, admission.devices) == (True, {})
    assert admission.edits["main"] == ContainerEdits()


def test_too_many(ready: SimulatedKubelet, plugin: Any) -> None:
    """More than there is fails the pod, and the plugin is not asked."""
    admission = ready.admit(_gpus("a", 9))
    assert (admission.admitted, admission.reason) == (False, "UnexpectedAdmissionError")
    assert "Requested: 9, Available: 8" in admission.message
    assert plugin.named("allocate") == []
    assert ready.pods() == {}


def test_allocate_error(ready: SimulatedKubelet, plugin: Any) -> None:
    """An Allocate error fails the pod with its text, and the device is free again."""
    plugin.answers["allocate"] = _raise("broken wire")
    admission = ready.admit(_gpus("a", 8))
    assert admission.reason == "UnexpectedAdmissionError"
    assert "broken wire" in admission.message
    plugin.answers.clear()
    assert ready.admit(_gpus("b", 8)).admitted


def test_empty_answer_leaks(ready: SimulatedKubelet, plugin: Any) -> None:
    """An answer without responses leaks the devices until some pod that held any is gone."""
    assert ready.admit(_gpus("holder", 2)).admitted
    plugin.answers["allocate"] = lambda _: api_pb2.AllocateResponse()
    assert not ready.admit(_gpus("leak", 4)).admitted
    plugin.answers.clear()
    assert "Available: 2" in ready.admit(_gpus("squeezed", 6)).message
    ready.remove("holder")
    assert ready.admit(_gpus("whole", 8)).admitted


def test_freed_lazily(ready: SimulatedKubelet) -> None:
    """A removed pod's devices are there for the next admission."""
    ready.admit(_gpus("a", 8))
    assert not ready.admit(_gpus("b")).admitted
    ready.remove("a")
    assert ready.admit(_gpus("c", 8)).admitted
    assert set(ready.pods()) == {"c"}


def test_same_name_twice(ready: SimulatedKubelet) -> None:
    """Two pods of one name are a mistake of the caller."""
    ready.admit(_gpus("a"))
    with pytest.raises(ValueError, match="remove it"):
        ready.admit(_gpus("a"))


# Preferred allocation


def test_preferred_is_asked_with_all_that_is_free(ready: SimulatedKubelet, plugin: Any) -> None:
    """Without hints the plugin sees every free healthy id, also when all are needed."""
    ready.admit(_gpus("a", 3))
    ready.admit(_gpus("b", 5))
    first, second = (each.container_requests[0] for each in plugin.named("preferred"))
    everything = {f"gpu-{n}" for n in range(8)}
    assert set(first.available_deviceIDs) == everything
    assert (list(first.must_include_deviceIDs), first.allocation_size) == ([], 3)
    taken = set(ready.pods()["a"]["main"][GPU])
    assert set(second.available_deviceIDs) == everything - taken


def test_preferred_is_followed(ready: SimulatedKubelet, plugin: Any) -> None:
    """The plugin's wish is granted."""
    plugin.answers["preferred"] = _preferring("gpu-6", "gpu-2")
    assert ready.admit(_gpus("a", 2)).devices["main"][GPU] == ("gpu-2", "gpu-6")


@pytest.mark.parametrize(
    "wish",
    [(), ("gpu-5",), ("nobody", "gpu-5"), ("gpu-0", "gpu-1", "gpu-2", "gpu-5")],
    ids=["empty", "short", "unknown-id", "too-long"],
)
def test_odd_wishes(ready: SimulatedKubelet, plugin: Any, wish: tuple[str, ...]) -> None:
    """A wish that does not fit is filled up or cut down to the size asked."""
    plugin.answers["preferred"] = _preferring(*wish)
    got = ready.admit(_gpus("a", 2)).devices["main"][GPU]
    assert len(got) == 2
    assert set(got) <= set(wish) or set(wish) & {f"gpu-{n}" for n in range(8)} <= set(got)


def test_preferred_error_fails_the_pod(ready: SimulatedKubelet, plugin: Any) -> None:
    """An error instead of a wish fails the pod, and takes no device."""
    plugin.answers["preferred"] = _raise("no opinion")
    assert "no opinion" in ready.admit(_gpus("a", 8)).message
    plugin.answers.clear()
    assert ready.admit(_gpus("b", 8)).admitted


def test_preferred_not_offered(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """A plugin that does not offer wishes is not asked; any ids are taken."""
    plugin.options = api_pb2.DevicePluginOptions()
    plugin.up("a.sock")
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 8})
    assert kubelet.admit(_gpus("a", 3)).admitted
    assert plugin.named("preferred") == []


# Init containers


def _pod(*containers: Container) -> Pod:
    return Pod(name="p", containers=containers)


def _asks(name: str, count: int, **kind: bool) -> Container:
    return Container(name=name, limits={GPU: count}, **kind)


def test_init_lends_to_app(ready: SimulatedKubelet, plugin: Any) -> None:
    """The app container gets the init container's device and one more."""
    pod = _pod(_asks("app", 2), _asks("init", 1, init=True))
    got = ready.admit(pod).devices
    assert set(got["init"][GPU]) < set(got["app"][GPU])
    must = plugin.named("preferred")[1].container_requests[0]
    assert tuple(must.must_include_deviceIDs) == got["init"][GPU]
    assert set(got["init"][GPU]) <= set(must.available_deviceIDs)
    assert must.allocation_size == 2
    assert len(plugin.named("allocate")) == 2


def test_reuse_that_covers_all_asks_no_wish(ready: SimulatedKubelet, plugin: Any) -> None:
    """Where lent devices are enough, the plugin is asked to allocate them again, no more."""
    got = ready.admit(_pod(_asks("init", 2, init=True), _asks("app", 2))).devices
    assert got["init"] == got["app"]
    assert len(plugin.named("preferred")) == 1
    assert len(plugin.named("allocate")) == 2


def test_sidecar_keeps_what_it_was_lent(ready: SimulatedKubelet) -> None:
    """A sidecar takes the init container's device, and the app gets another."""
    pod = _pod(
        _asks("init", 1, init=True),
        _asks("sidecar", 1, init=True, restartable=True),
        _asks("app", 1),
    )
    got = ready.admit(pod).devices
    assert got["init"] == got["sidecar"]
    assert got["app"] != got["sidecar"]


# Hanging, dying


def test_hanging_allocate_blocks_admission_only(
    ready: SimulatedKubelet, plugin: Any, line: Any
) -> None:
    """While Allocate hangs, counts and health go on; the kubelet's death ends the wait."""
    held = threading.Event()
    plugin.answers["allocate"] = lambda _: held.wait(10)
    outcome: list[object] = []

    def admit() -> None:
        try:
            outcome.append(ready.admit(_gpus("a")))
        except KubeletStoppedError as error:
            outcome.append(error)

    admitting = threading.Thread(target=admit)
    admitting.start()
    assert ready.wait(lambda: bool(plugin.named("allocate")))
    plugin.push(line("gpu-0"), line("gpu-1", "Unhealthy"))
    assert ready.wait(lambda: ready.allocatable() == {GPU: 1})
    assert outcome == []
    ready.stop()
    admitting.join(5)
    held.set()
    assert isinstance(outcome[0], KubeletStoppedError)
    assert ready.pods() == {}


def test_vanishing_id_kills_the_kubelet(ready: SimulatedKubelet, plugin: Any, line: Any) -> None:
    """An id that leaves the list between choice and answer kills the process."""
    reply = api_pb2.AllocateResponse(container_responses=[api_pb2.ContainerAllocateResponse()])

    def vanish(_: object) -> Any:
        plugin.push(line("other"))
        assert ready.wait(lambda: set(ready.devices(GPU)) == {"other"})
        return reply

    plugin.answers["allocate"] = vanish
    with pytest.raises(KubeletCrashedError, match="vanished"):
        ready.admit(_gpus("a"))
    assert "vanished" in ready.crashed
    assert ready.capacity() == {}
    assert ready.wait(lambda: plugin.open_streams() == 0)
    with pytest.raises(KubeletStoppedError):
        ready.admit(_gpus("b"))
    ready.restart()
    assert ready.crashed == ""


def test_vanishing_id_while_held(ready: SimulatedKubelet, plugin: Any, line: Any) -> None:
    """An id that leaves the list while held stays held, also when it comes back."""
    plugin.answers["preferred"] = _preferring("gpu-0")
    ready.admit(_gpus("a"))
    rest = [line(f"gpu-{n}") for n in range(1, 8)]
    plugin.push(*rest)
    assert ready.wait(lambda: ready.capacity() == {GPU: 7})
    assert ready.pods()["a"]["main"][GPU] == ("gpu-0",)
    plugin.push(line("gpu-0"), *rest)
    assert ready.wait(lambda: ready.capacity() == {GPU: 8})
    assert "Available: 7" in ready.admit(_gpus("b", 8)).message


# Container starts


def test_start_gives_the_kept_answer(ready: SimulatedKubelet, plugin: Any) -> None:
    """Each start of a container gets the admission's edits, without another Allocate."""
    edits = ready.admit(_gpus("a")).edits["main"]
    plugin.stop("a.sock")
    assert ready.start_container("a") == edits
    assert len(plugin.named("allocate")) == 1


def test_pre_start(kubelet: SimulatedKubelet, plugin: Any) -> None:
    """PreStartContainer gets the ids at each start; its error, or its absence, fails the start."""
    plugin.options = api_pb2.DevicePluginOptions(pre_start_required=True)
    plugin.up("a.sock")
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 8})
    ids = kubelet.admit(_gpus("a")).devices["main"][GPU]
    kubelet.start_container("a")
    assert tuple(plugin.named("prestart")[0].devices_ids) == ids
    plugin.answers["prestart"] = _raise("not today")
    with pytest.raises(ContainerStartError, match="not today"):
        kubelet.start_container("a")
    plugin.stop("a.sock")
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 0})
    with pytest.raises(ContainerStartError, match="has been stopped"):
        kubelet.start_container("a")


def test_start_without_an_entry_allocates(ready: SimulatedKubelet, plugin: Any) -> None:
    """A container the kubelet forgot is allocated for at its start, or fails to start."""
    ready.admit(_gpus("a", 8))
    ready.stop()
    (ready.plugin_dir / "kubelet_internal_checkpoint").unlink()
    ready.start()
    plugin.up("b.sock")
    assert ready.wait(lambda: ready.allocatable() == {GPU: 8})
    plugin.answers["allocate"] = _raise("not now")
    with pytest.raises(ContainerStartError, match="not now"):
        ready.start_container("a")
    plugin.answers.clear()
    assert len(ready.start_container("a").env["IDS"].split(",")) == 8


def test_start_of_nothing(ready: SimulatedKubelet) -> None:
    """A pod or container that is not there is a mistake of the caller."""
    ready.admit(_gpus("a"))
    with pytest.raises(KeyError):
        ready.start_container("b")
    with pytest.raises(KeyError):
        ready.start_container("a", "other")


def test_dropped_resource_with_holders_is_unregistered(boot: Any, era: str, plugin: Any) -> None:
    """After the grace a resource that was ever allocated is refused by the device manager."""
    now = [0.0]
    kubelet = boot(era=era, clock=lambda: now[0], grace=300.0)
    plugin.up("a.sock")
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 8})
    kubelet.admit(_gpus("a"))
    plugin.stop("a.sock")
    assert kubelet.wait(lambda: kubelet.allocatable() == {GPU: 0})
    now[0] = 301.0
    assert "unregistered" in kubelet.admit(_gpus("b")).message
