"""Machines with AMD GPUs, alone and beside NVIDIA's, in one simulated node."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

Start = Callable[..., Any]

SHARED = """\
version: v1
sharing: {{timeSlicing: {{resources: [{{name: gpu, replicas: {replicas}}}]}}}}
"""


def _of(resource: str, allocatable: int) -> Callable[[Any], bool]:
    return lambda event: event["resource"] == resource and event["allocatable"] == allocatable


def test_both_vendors_side_by_side(start: Start) -> None:
    """Two daemons serve one kubelet; an edit of each file is followed by its own lists alone."""
    simulation = start("mixed", "--for", "60")
    configs = simulation.until("start")["configs"]
    assert set(configs) == {"nvidia", "amd"}
    seen: set[str] = set()
    while seen < {"amd.com/gpu", "nvidia.com/gpu"}:
        seen.add(str(simulation.until("list")["resource"]))
    Path(configs["amd"]).write_text(SHARED.format(replicas=3))
    listed = simulation.until("list", _of("amd.com/gpu", 6))
    assert listed["after_edit_ms"] > 0
    Path(configs["nvidia"]).write_text(SHARED.format(replicas=4))
    simulation.until("list", _of("nvidia.com/gpu", 8))
    vendors = {event.get("vendor") for event in simulation.seen if event["event"] == "daemon"}
    assert vendors >= {"nvidia", "amd"}


def test_a_repartition_on_the_open_stream(start: Start, tmp_path: Path) -> None:
    """Sixteen parts become two whole GPUs and parts again, registered once."""
    machine = tmp_path / "m.yaml"
    machine.write_text(
        "amd: {gpus: {count: 2, partition: CPX/NPS4, hives: [0, 0]}}\n"
        "demo: {pods: 0, timeline:"
        " [{at: 2, repartition: SPX/NPS1}, {at: 5, repartition: CPX/NPS4}]}\n"
    )
    simulation = start(str(machine), "--for", "60")
    simulation.until("list", _of("amd.com/gpu", 16))
    simulation.until("list", _of("amd.com/gpu", 2))
    simulation.until("list", _of("amd.com/gpu", 16))
    registered = [event for event in simulation.seen if event.get("what") == "registered"]
    assert len(registered) == 1


def test_64_partitions(start: Start) -> None:
    """The shipped machine shows 64 units, and pods get parts of as few GPUs as can be."""
    simulation = start("mi300x-cpx", "--for", "60")
    simulation.until("list", _of("amd.com/gpu", 64))
    pod = simulation.until("pod", lambda event: len(event.get("units", ())) == 2)
    assert len({str(unit).partition("-p")[0] for unit in pod["units"]}) == 1


def test_a_config_that_is_wrong_names_its_file(start: Start) -> None:
    """The refusal is told with the vendor it is of, and the other one is not touched."""
    simulation = start("mixed", "--for", "60")
    configs = simulation.until("start")["configs"]
    simulation.until("list", lambda event: event["resource"] == "amd.com/gpu")
    Path(configs["amd"]).write_text("flags: {partitionStrategy: none}\n")
    refused = simulation.until("config", lambda event: bool(event["bad"]))
    assert refused["vendor"] == "amd"
    assert "amd.yaml:1" in str(refused["text"])
