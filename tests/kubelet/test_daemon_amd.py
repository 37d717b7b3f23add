"""AMD GPUs, whole and partitioned, on a kubelet: divided otherwise while pods hold them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deviceplugin.simulation.kubelet import Container
from tests.kubelet.daemon import Ours
from tests.kubelet.node import Kubelet

GPU = "amd.com/gpu"
SPX = "amd.com/spx_nps1"
CPX = "amd.com/cpx_nps4"
MIXED = {"flags": {"partitionStrategy": "mixed"}}
LEAVING = 30.0  # seconds: the bounds of the withdrawal are lowered, the machine may be slow


@pytest.fixture
def amd(root: Path) -> Iterator[Ours]:
    """Our daemon for AMD beside the kubelet."""
    ours = Ours(root, "amd")
    yield ours
    ours.close()


def _gpus(ids: object) -> set[str]:
    """Physical GPUs behind partition ids."""
    assert isinstance(ids, frozenset | set | list | tuple)
    return {str(unit).partition("-p")[0] for unit in ids}


@pytest.mark.smoke
def test_partitions_are_counted_and_given_out_together(kubelet: Kubelet, amd: Ours) -> None:
    """64 partitions are 64 units, and a pod that asks for eight gets one whole GPU."""
    amd.start(machine="mi300x-cpx")
    kubelet.wait(resource=GPU, allocatable=64, capacity=64)
    assert kubelet.admit("eight", Container(limits={GPU: 8})).admitted
    held = kubelet.held()["eight"]["main"][GPU]
    assert len(held) == 8
    assert len(_gpus(held)) == 1
    edits = kubelet.start_container("eight")
    nodes = [node.container_path for node in edits.device_nodes]
    assert nodes.count("/dev/kfd") == 1
    assert len([node for node in nodes if node.startswith("/dev/dri/renderD")]) == 8
    assert {node.permissions for node in edits.device_nodes} == {"rw"}


@pytest.mark.smoke
def test_repartition_with_pods_under_one_name(kubelet: Kubelet, amd: Ours) -> None:
    """All GPUs made whole: free ones change at once, a held one waits for its pod; one stream."""
    daemon = amd.start(machine="mi300x-cpx")
    kubelet.wait(resource=GPU, allocatable=64, capacity=64)
    assert kubelet.admit("busy", Container(limits={GPU: 1})).admitted
    amd.happen(repartition="SPX/NPS1")
    kubelet.wait(resource=GPU, allocatable=7, seconds=LEAVING)
    # Seven whole GPUs, and the partition that the pod holds, Unhealthy; its GPU waits unlisted.
    kubelet.wait(resource=GPU, allocatable=7, capacity=8, seconds=LEAVING)
    assert kubelet.held()["busy"]["main"][GPU]
    kubelet.remove("busy")
    kubelet.wait(resource=GPU, allocatable=8, capacity=8, seconds=LEAVING)
    assert daemon.said("registered") == 1
    assert all("-p" not in unit for unit in kubelet.devices(GPU))


def test_repartition_moves_units_between_names(kubelet: Kubelet, amd: Ours) -> None:
    """Under the mixed strategy the old name goes to zero and the new one comes up."""
    amd.write(**MIXED)
    amd.start(machine="mi300x-cpx")
    kubelet.wait(resource=CPX, allocatable=64, capacity=64)
    amd.happen(repartition="SPX/NPS1", gpu=0)
    kubelet.wait(resource=SPX, allocatable=1, capacity=1, seconds=LEAVING)
    kubelet.wait(resource=CPX, allocatable=56, capacity=56, seconds=LEAVING)
    amd.happen(repartition="SPX/NPS1")
    kubelet.wait(resource=SPX, allocatable=8, capacity=8, seconds=LEAVING)
    kubelet.wait(resource=CPX, allocatable=0, capacity=0, seconds=LEAVING)


def test_the_strategy_is_edited_while_a_pod_runs(kubelet: Kubelet, amd: Ours) -> None:
    """From one name to names by kind and back; the held unit stays under the name it has."""
    amd.start(machine="mi300x-cpx")
    kubelet.wait(resource=GPU, allocatable=64, capacity=64)
    assert kubelet.admit("busy", Container(limits={GPU: 1})).admitted
    amd.write(**MIXED)
    kubelet.wait(resource=CPX, allocatable=63, capacity=63, seconds=LEAVING)
    kubelet.wait(resource=GPU, allocatable=0, capacity=1, seconds=LEAVING)
    amd.write()
    kubelet.wait(resource=GPU, allocatable=64, capacity=64, seconds=LEAVING)
    kubelet.wait(resource=CPX, allocatable=0, capacity=0, seconds=LEAVING)
    assert kubelet.held()["busy"]["main"][GPU]


def test_unlike_partitions_under_one_name(kubelet: Kubelet, amd: Ours) -> None:
    """Three of eight GPUs are partitioned: the five whole ones are served, nothing exits."""
    daemon = amd.start(machine="mi300x-mixed")
    kubelet.wait(resource=GPU, allocatable=5, capacity=5 + 3 * 8)
    assert daemon.said("held back", "partitionStrategy")
    amd.write(**MIXED)
    kubelet.wait(resource=SPX, allocatable=5, capacity=5, seconds=LEAVING)
    kubelet.wait(resource="amd.com/cpx_nps1", allocatable=24, capacity=24, seconds=LEAVING)
    assert daemon.running


def test_a_fault_of_a_gpu_takes_its_partitions(kubelet: Kubelet, amd: Ours) -> None:
    """An uncorrectable memory error takes eight units away, a reset gives them back."""
    amd.start(machine="mi300x-cpx", recovery_hold=0.2)
    kubelet.wait(resource=GPU, allocatable=64)
    sick = min(_gpus(kubelet.devices(GPU)))
    amd.happen(ras="umc", gpu=0)
    kubelet.wait(resource=GPU, allocatable=56, capacity=64, seconds=LEAVING)
    assert sick not in _gpus(kubelet.devices(GPU))
    amd.happen(reset=0)
    kubelet.wait(resource=GPU, allocatable=64, capacity=64, seconds=LEAVING)


def test_a_restarted_daemon_waits_for_pods_of_before(kubelet: Kubelet, amd: Ours) -> None:
    """What pods got of the last process keeps the parts of its GPUs from the next ones."""
    first = amd.start(machine="mi300x-spx")
    kubelet.wait(resource=GPU, allocatable=8, capacity=8)
    assert kubelet.admit("busy", Container(limits={GPU: 8})).admitted
    first.end()
    kubelet.wait(resource=GPU, allocatable=0)
    amd.start(machine="mi300x-spx")
    kubelet.wait(resource=GPU, allocatable=8, capacity=8)
    amd.happen(repartition="CPX/NPS4")
    kubelet.wait(resource=GPU, allocatable=0, seconds=LEAVING)
    assert len(kubelet.held()["busy"]["main"][GPU]) == 8
    kubelet.remove("busy")
    kubelet.wait(resource=GPU, allocatable=64, capacity=64, seconds=LEAVING)


@pytest.mark.figures
def test_the_time_a_repartition_takes(
    kubelet: Kubelet, amd: Ours, figure: Callable[[str, float], None]
) -> None:
    """From the driver's change to the kubelet's allocatable, both ways."""
    amd.start(machine="mi300x-cpx")
    kubelet.wait(resource=GPU, allocatable=64)
    for _ in range(3):
        for mode, units in (("SPX/NPS1", 8), ("CPX/NPS4", 64)):
            begun = amd.happen(repartition=mode)
            reached = kubelet.wait(resource=GPU, allocatable=units, seconds=LEAVING)
            figure(f"repartition to {mode} to allocatable", (reached.at - begun) * 1000)
