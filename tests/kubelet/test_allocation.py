"""How a kubelet chooses devices, asks for them, and what it makes of odd answers."""

import threading
from typing import Any

import pytest

from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.simulation.kubelet import ContainerStartError
from tests.kubelet.node import GPU, Counts, Kubelet, asking
from tests.kubelet.plugin import Plugins, ScriptedPlugin, Wish, failing, gpus, ids, preferring
from tests.kubelet.until import until

ALL = ids(*range(8))


@pytest.mark.smoke
def test_the_plugin_is_asked_what_it_prefers(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """All free ones are offered each time, also when all of them are wanted."""
    assert kubelet.admit("a", asking(2)).admitted
    assert kubelet.admit("b", asking(6)).admitted
    assert served.wishes() == [
        Wish(available=ALL, size=2),
        Wish(available=ids(*range(2, 8)), size=6),
    ]
    assert served.allocated() == [ids(0, 1), ids(*range(2, 8))]


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        pytest.param(api_pb2.PreferredAllocationResponse(), set(), id="nothing"),
        pytest.param(preferring("nope-1", "nope-2"), set(), id="unknown-ids"),
        pytest.param(preferring("gpu-7"), {"gpu-7"}, id="too-few"),
        pytest.param(preferring("gpu-6", "gpu-7"), {"gpu-6", "gpu-7"}, id="right"),
    ],
)
def test_a_wish_is_filled_up(
    kubelet: Kubelet, served: ScriptedPlugin, answer: Any, kept: set[str]
) -> None:
    """What is usable of an answer is used, and the rest is filled with any."""
    served.answers["GetPreferredAllocation"] = lambda *_: answer
    taken = set(kubelet.admit("a", asking(2)).devices["main"][GPU])
    assert len(taken) == 2
    assert kept <= taken


def test_a_wish_for_too_many_is_cut(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """Of four where two are wanted any two are taken."""
    served.answers["GetPreferredAllocation"] = lambda *_: preferring(*ids(4, 5, 6, 7))
    taken = set(kubelet.admit("a", asking(2)).devices["main"][GPU])
    assert len(taken) == 2
    assert taken <= ids(4, 5, 6, 7)


def test_an_error_instead_of_a_wish_fails_the_pod(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """So an answer, any answer, is better than an error."""
    served.answers["GetPreferredAllocation"] = failing("no wish today")
    admission = kubelet.admit("a", asking(2))
    assert (admission.admitted, admission.reason) == (False, "UnexpectedAdmissionError")
    assert "no wish today" in admission.message


def test_a_plugin_without_the_option_is_not_asked(kubelet: Kubelet, plugin: Plugins) -> None:
    """Then the ids are any."""
    gpu = plugin()
    gpu.options = api_pb2.DevicePluginOptions()
    gpu.listed(kubelet, "a.sock")
    assert kubelet.admit("a", asking(2)).admitted
    assert gpu.wishes() == []


def test_an_init_containers_device_is_used_again(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """The app container gets it and one more, and the plugin is told that it must."""
    admission = kubelet.admit("a", asking(1, name="init", init=True), asking(2, name="app"))
    assert admission.devices["init"][GPU] == ("gpu-0",)
    assert admission.devices["app"][GPU] == ("gpu-0", "gpu-1")
    assert served.wishes() == [
        Wish(available=ALL, size=1),
        Wish(available=ALL, must=ids(0), size=2),
    ]
    assert served.allocated() == [ids(0), ids(0, 1)]


def test_what_is_used_again_is_not_asked_for(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """Where lent devices cover all the plugin has no say, but is asked to allocate."""
    admission = kubelet.admit("a", asking(2, name="init", init=True), asking(1, name="app"))
    assert set(admission.devices["app"][GPU]) < set(admission.devices["init"][GPU])
    assert len(served.wishes()) == 1
    assert len(served.allocated()) == 2


def test_a_sidecar_takes_over_the_init_containers_device(
    kubelet: Kubelet, served: ScriptedPlugin
) -> None:
    """It goes on running, so the app container gets another one."""
    admission = kubelet.admit(
        "a",
        asking(1, name="init", init=True),
        asking(1, name="side", init=True, restartable=True),
        asking(1, name="app"),
    )
    devices = {name: each[GPU] for name, each in admission.devices.items()}
    assert devices == {"init": ("gpu-0",), "side": ("gpu-0",), "app": ("gpu-1",)}
    assert len(served.allocated()) == 3


def test_an_error_of_allocate_fails_the_pod_only(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """Its text is what the user reads; the devices are free again."""
    served.answers["Allocate"] = failing("the device is broken")
    admission = kubelet.admit("a", asking(8))
    assert (admission.admitted, admission.reason) == (False, "UnexpectedAdmissionError")
    assert "the device is broken" in admission.message
    served.answers.clear()
    assert kubelet.admit("b", asking(8)).admitted


def test_an_empty_answer_of_allocate_leaks(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """The chosen devices stay in use until some pod that held devices ends."""
    served.answers["Allocate"] = lambda *_: api_pb2.AllocateResponse()
    assert not kubelet.admit("a", asking(1)).admitted
    served.answers.clear()
    assert not kubelet.admit("b", asking(8)).admitted
    assert kubelet.admit("c", asking(1)).admitted
    kubelet.remove("c")
    assert kubelet.admit("d", asking(8)).admitted


def test_a_hanging_allocate_holds_up_pods_and_nothing_else(
    kubelet: Kubelet, served: ScriptedPlugin
) -> None:
    """There is no deadline: health goes on, every other pod waits."""
    answer = threading.Event()
    served.answers["Allocate"] = lambda *_: answer.wait(30) and None
    first = kubelet.admit_beside("a", asking(1))
    assert until(lambda: served.called("Allocate"))
    served.push(gpus(8, unhealthy=[7]))
    kubelet.wait(allocatable=7, capacity=8)
    second = kubelet.admit_beside("b", asking(1))
    assert not until(lambda: len(served.called("Allocate")) > 1, seconds=0.5)
    answer.set()
    assert first(10).admitted
    assert second(10).admitted


def test_more_than_there_are(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """The pod fails with the arithmetic, and nothing is allocated."""
    assert kubelet.admit("a", asking(3)).admitted
    admission = kubelet.admit("b", asking(6))
    assert not admission.admitted
    assert "Requested: 6, Available: 5" in admission.message
    assert served.allocated() == [ids(0, 1, 2)]


def test_a_resource_nobody_registered(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """The device manager lets the pod in, with nothing: the scheduler would have kept it away."""
    assert kubelet.counts("example.com/none") == Counts(allocatable=None, capacity=None)
    assert kubelet.admit("a", asking(1, "example.com/none")).admitted
    assert kubelet.start_container("a").env == {}
    assert served.allocated() == []


def test_all_of_an_answer_reaches_the_runtime(kubelet: Kubelet, served: ScriptedPlugin) -> None:
    """Environment, mounts, device nodes, annotations and CDI names, at each start the same."""
    response = api_pb2.ContainerAllocateResponse(
        envs={"A": "b"},
        mounts=[api_pb2.Mount(container_path="/c", host_path="/h", read_only=True)],
        devices=[api_pb2.DeviceSpec(container_path="/dev/a", host_path="/dev/b", permissions="rw")],
        annotations={"example.com/x": "y"},
        cdi_devices=[api_pb2.CDIDevice(name="example.com/gpu=1")],
    )
    served.answers["Allocate"] = lambda *_: api_pb2.AllocateResponse(container_responses=[response])
    assert kubelet.admit("a", asking(1)).admitted
    edits = kubelet.start_container("a")
    assert edits.env == {"A": "b"}
    assert [(each.container_path, each.host_path) for each in edits.mounts] == [("/c", "/h")]
    assert [(each.host_path, each.permissions) for each in edits.device_nodes] == [("/dev/b", "rw")]
    assert edits.annotations == {"example.com/x": "y"}
    assert edits.cdi_names == ("example.com/gpu=1",)
    assert kubelet.start_container("a") == edits
    assert len(served.allocated()) == 1


def test_pre_start_comes_before_each_start(kubelet: Kubelet, plugin: Plugins) -> None:
    """Where the plugin asked for it; an error, or a plugin that is gone, stops the start."""
    gpu = plugin()
    gpu.options = api_pb2.DevicePluginOptions(pre_start_required=True)
    gpu.devices = gpus(2)
    gpu.listed(kubelet, "a.sock")
    assert kubelet.admit("a", asking(2)).admitted
    assert gpu.called("PreStartContainer") == []
    kubelet.start_container("a")
    kubelet.start_container("a")
    told = [sorted(each.devices_ids) for each in gpu.called("PreStartContainer")]
    assert told == [["gpu-0", "gpu-1"]] * 2
    gpu.answers["PreStartContainer"] = failing("it means another now")
    with pytest.raises(ContainerStartError, match="it means another now"):
        kubelet.start_container("a")
    gpu.stop("a.sock")
    kubelet.wait(allocatable=0)
    with pytest.raises(ContainerStartError):
        kubelet.start_container("a")
