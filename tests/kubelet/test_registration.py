"""What Register does, and what it refuses."""

import threading

import grpc
import pytest

from tests.kubelet.node import GPU, Boot, Counts, Kubelet, asking
from tests.kubelet.plugin import Plugins, failing
from tests.kubelet.until import until

NOTHING = Counts(allocatable=None, capacity=None)


@pytest.mark.smoke
def test_a_pod_gets_one_device(kubelet: Kubelet, plugin: Plugins) -> None:
    """A plugin that registers is listed, and a pod that asks for one device holds one."""
    gpu = plugin()
    gpu.listed(kubelet, "a.sock")
    assert kubelet.admit("one", asking(1)).admitted
    assert kubelet.held() == {"one": {"main": {GPU: ("gpu-0",)}}}
    assert kubelet.start_container("one").env == {"VISIBLE": "gpu-0"}
    assert kubelet.counts() == Counts(allocatable=8, capacity=8)


@pytest.mark.smoke
def test_options_are_read_before_the_answer(kubelet: Kubelet, plugin: Plugins) -> None:
    """Register returns after the options were read, and the list is asked for after that."""
    gpu = plugin()
    returned = threading.Event()
    early: list[bool] = []
    gpu.answers["GetDevicePluginOptions"] = lambda *_: early.append(returned.wait(0.2))
    gpu.up("a.sock")
    returned.set()
    kubelet.wait(allocatable=8, capacity=8)
    assert early == [False]
    assert [method for method, *_ in gpu.calls] == ["GetDevicePluginOptions", "ListAndWatch"]


def test_options_that_fail(kubelet: Kubelet, plugin: Plugins) -> None:
    """Their text comes back, the list is never asked for, and the resource never appears."""
    gpu = plugin()
    gpu.answers["GetDevicePluginOptions"] = failing("options are broken")
    error = gpu.register(gpu.serve("a.sock"))
    assert error.startswith("UNKNOWN: ")
    assert "options are broken" in error
    assert not until(lambda: kubelet.counts() != NOTHING, seconds=0.5)
    assert [method for method, *_ in gpu.calls] == ["GetDevicePluginOptions"]


def test_a_first_list_that_fails(kubelet: Kubelet, plugin: Plugins) -> None:
    """Register was good; there is nothing to count, and the list is not asked for again."""
    gpu = plugin()
    gpu.answers["ListAndWatch"] = failing("not yet")
    gpu.up("a.sock")
    kubelet.wait(allocatable=-1, capacity=0)
    assert not until(lambda: len(gpu.calls) > 2, seconds=1)
    assert [method for method, *_ in gpu.calls] == ["GetDevicePluginOptions", "ListAndWatch"]
    assert kubelet.counts() == Counts(allocatable=None, capacity=0)


@pytest.mark.parametrize("version", ["v1", "v1alpha1", ""])
def test_another_version(kubelet: Kubelet, plugin: Plugins, version: str) -> None:
    """It is refused with the versions that there are, before any call to the plugin."""
    gpu = plugin()
    error = gpu.register(gpu.serve("a.sock"), version=version)
    assert error.startswith("UNKNOWN: ")
    assert "v1beta1" in error
    assert (gpu.calls, kubelet.counts()) == ([], NOTHING)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("gpu", id="no domain"),
        pytest.param("nvidia.com/", id="no name"),
        pytest.param("nvidia.com/gpu/x", id="two slashes"),
        pytest.param("gpu.kubernetes.io/x", id="Kubernetes' own domain"),
        pytest.param("requests.nvidia.com/gpu", id="named as quotas are"),
        pytest.param("NVIDIA.com/gpu", id="capitals in the domain"),
        pytest.param("nvidia.com/-gpu", id="name begins with a dash"),
        pytest.param("nvidia.com/" + "g" * 64, id="64 characters of name"),
        pytest.param("n" * 245 + "/gpu", id="245 characters of domain"),
    ],
)
def test_names_that_are_refused(kubelet: Kubelet, plugin: Plugins, name: str) -> None:
    """What is no extended resource is refused by name, before any call to the plugin."""
    gpu = plugin(name)
    error = gpu.register(gpu.serve("a.sock"))
    assert error.startswith("UNKNOWN: ")
    assert name in error
    assert (gpu.calls, kubelet.counts(name)) == ([], NOTHING)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("x/y", id="short"),
        pytest.param("nvidia.com/mig-1g.5gb.shared_X", id="dots dashes capitals"),
        pytest.param("nvidia.com/" + "g" * 63, id="63 characters of name"),
        pytest.param("n" * 244 + "/gpu", id="244 characters of domain"),
    ],
)
def test_names_that_are_taken(kubelet: Kubelet, plugin: Plugins, name: str) -> None:
    """Names that just keep within the rules work."""
    plugin(name).listed(kubelet, "a.sock")


def test_nobody_at_the_endpoint(kind: str, boot: Boot, plugin: Plugins) -> None:
    """Register fails once the kubelet has tried for ten seconds."""
    kubelet = boot(dial_seconds=0.3) if kind.startswith("simulated-") else boot()
    error = plugin().register("missing.sock", seconds=20)
    assert error.startswith("UNKNOWN: ")
    assert "failed to dial device plugin" in error
    assert kubelet.counts() == NOTHING


def test_a_deadline_that_passes_before_the_options(kubelet: Kubelet, plugin: Plugins) -> None:
    """From 1.36 on nothing comes of it; 1.34 registers once it has them, unknown to the caller."""
    gpu = plugin()
    ready = threading.Event()
    left = threading.Event()

    def wait(_request: object, context: grpc.ServicerContext) -> None:
        until(lambda: ready.is_set() or not context.is_active())
        left.set()

    gpu.answers["GetDevicePluginOptions"] = wait
    assert gpu.register(gpu.serve("a.sock"), seconds=0.3)
    if kubelet.release == "1.34":
        ready.set()
        kubelet.wait(allocatable=8, capacity=8)
    else:
        assert left.wait(2)
        assert not until(lambda: kubelet.counts() != NOTHING or gpu.open_streams(), seconds=0.5)


def test_an_endpoint_in_a_folder(kubelet: Kubelet, plugin: Plugins) -> None:
    """It is taken as a path below the plugin folder, where a restart leaves its socket alone."""
    gpu = plugin()
    (gpu.folder / "sub").mkdir()
    gpu.listed(kubelet, "sub/a.sock")
    kubelet.restart()
    assert (gpu.folder / "sub" / "a.sock").is_socket()
