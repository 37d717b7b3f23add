"""Reading machines: what a good file says, and what a wrong one is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from deviceplugin.simulation.machine import (
    DEFAULT_MACHINE,
    Gpu,
    Machine,
    MachineNotFoundError,
    find,
    shipped,
)
from deviceplugin.simulation.machine_file import (
    MachineUnreadableError,
    demo_text,
    load,
    parse,
)
from deviceplugin.simulation.sections import TextInvalidError
from deviceplugin.simulation.timeline import Step, Verb

ReadMachine = Callable[[str], Machine]

SHIPPED = {
    "h100x8": (8, 0),
    "a100x4": (4, 0),
    "l4x1": (1, 0),
    "h100x16": (16, 0),
    "mi300x-spx": (0, 8),
    "mi300x-cpx": (0, 8),
    "mi300x-mixed": (0, 8),
    "mi210x8": (0, 8),
    "radeon": (0, 1),
    "mixed": (2, 2),
    "none": (0, 0),
}
"""NVIDIA's and AMD's GPUs of each shipped machine."""


@pytest.mark.parametrize(("name", "gpus"), SHIPPED.items())
def test_shipped_machines_load(name: str, gpus: tuple[int, int]) -> None:
    """Each shipped machine is found by its name and has the GPUs that its name says."""
    machine = load(find(name))
    assert machine.name == name
    assert (machine.gpus["nvidia"], machine.gpus["amd"]) == gpus


def test_every_shipped_machine_is_tested() -> None:
    """The table above names every file, the default among them."""
    assert set(shipped()) == set(SHIPPED)
    assert DEFAULT_MACHINE in shipped()


def test_counted_gpus_are_complete(machine: Machine) -> None:
    """From a count come GPUs with made-up ids, which differ, and the given NUMA nodes."""
    assert machine.nvidia is not None
    first, second = machine.nvidia.gpus
    assert (first.numa_node, second.numa_node) == (0, 1)
    assert (first.model, first.memory_mib) == ("Model", 100)
    assert first.uuid.startswith("GPU-")
    assert first.uuid != second.uuid
    assert first.pci_address != second.pci_address


def test_made_up_ids_are_stable(read_machine: ReadMachine) -> None:
    """The same machine has the same UUIDs each time, another machine has others."""
    text = "nvidia: {gpus: {count: 2}}"
    again = read_machine(text)
    other = parse(text, file="o.yaml", name="other")
    assert read_machine(text) == again
    assert again.nvidia != other.nvidia


def test_listed_gpus_keep_what_the_file_says(read_machine: ReadMachine) -> None:
    """Each key of a listed GPU is used, an address that looks like a YAML number too."""
    uuid = "GPU-00000000-1111-2222-3333-444444444444"
    text = f"""\
numa: [0-3]
nvidia:
  gpus:
    - {{model: A, memory: 7, uuid: {uuid}, pci: 0000:43:00.0, minor: 5, numa: 0, device: "0x0001"}}
"""
    machine = read_machine(text)
    assert machine.nvidia is not None
    assert machine.nvidia.gpus == (
        Gpu(
            index=0,
            uuid=uuid,
            minor=5,
            model="A",
            memory_mib=7,
            pci_address="0000:43:00.0",
            numa_node=0,
            pci_device="0x0001",
        ),
    )


def test_an_empty_file_is_a_bare_machine(read_machine: ReadMachine) -> None:
    """Nothing in the file: a machine without driver library, named after the file."""
    assert read_machine("# nothing\n") == Machine(name="m")


@pytest.mark.parametrize(
    ("text", "line", "path", "remedy"),
    [
        pytest.param("a: [", 1, "", "write one YAML document", id="not YAML"),
        pytest.param("a: 1\n---\nb: 2", 2, "", "write one YAML document", id="two documents"),
        pytest.param("- 1", 1, "", "write a mapping", id="list at the top"),
        pytest.param("numa: 3", 1, "numa", "write a list", id="numa is no list"),
        pytest.param("numa: [a-b]", 1, "numa", "write the CPUs", id="numa has no CPUs"),
        pytest.param("\nnvida: {}", 2, "nvida", "write nvidia", id="misspelt key"),
        pytest.param("name: []", 1, "name", "write a text", id="name is a list"),
        pytest.param("name: a\nname: b", 2, "name", "write the key once", id="key twice"),
        pytest.param("nvidia: {}", 1, "nvidia.gpus", "{count: 8}", id="no GPUs given"),
        pytest.param("nvidia: {gpus: 8}", 1, "nvidia.gpus", "write a mapping", id="bare count"),
        pytest.param(
            "nvidia: {gpus: {count: eight}}", 1, "nvidia.gpus.count", "0 to 64", id="count in words"
        ),
        pytest.param(
            "nvidia: {gpus: {count: 65}}", 1, "nvidia.gpus.count", "0 to 64", id="too many"
        ),
        pytest.param("nvidia: {gpus: {}}", 1, "nvidia.gpus.count", "number of GPUs", id="no count"),
        pytest.param(
            "numa: [0-3]\nnvidia: {gpus: {count: 2, numa: [0, 1]}}",
            2,
            "nvidia.gpus.numa",
            "2 NUMA nodes (the machine has 0)",
            id="NUMA node not there",
        ),
        pytest.param(
            "nvidia: {gpus: {count: 1, numa: [0]}}",
            1,
            "nvidia.gpus.numa",
            "list them under `numa`",
            id="no NUMA nodes at all",
        ),
        pytest.param(
            "nvidia: {gpus: {count: 2, pci: [x, y]}}",
            1,
            "nvidia.gpus.pci",
            "0000:10:00.0",
            id="no PCI address",
        ),
        pytest.param(
            "nvidia:\n  gpus:\n  - {uuid: 7}", 3, "nvidia.gpus[0].uuid", "like GPU-", id="no UUID"
        ),
        pytest.param(
            "nvidia: {gpus: [{minor: 3}, {minor: 3}]}",
            1,
            "nvidia.gpus",
            "minor of its own",
            id="minor twice",
        ),
        pytest.param("timeline: [5]", 1, "timeline[0]", "write a mapping", id="step is a number"),
        pytest.param(
            "timeline: [{lost: 0}]", 1, "timeline[0].lost", "has no GPU", id="step without GPUs"
        ),
        pytest.param("demo: {pods: -1}", 1, "demo.pods", "0 to 100", id="pods below 0"),
        pytest.param("demo: {every: 0}", 1, "demo.every", "0.05", id="no pause"),
    ],
)
def test_what_a_wrong_file_is_told(
    read_machine: ReadMachine, text: str, line: int, path: str, remedy: str
) -> None:
    """A wrong file is refused with line, key and remedy."""
    with pytest.raises(TextInvalidError) as caught:
        read_machine(text)
    told = [str(problem) for problem in caught.value.problems]
    where = f"m.yaml:{line}: {path}: " if path else f"m.yaml:{line}: "
    assert any(each.startswith(where) and remedy in each for each in told), told


def test_all_problems_at_once(read_machine: ReadMachine) -> None:
    """Three mistakes are told together, by line."""
    text = "numa: 3\nnvidia: {gpus: {count: x}}\ndemo: {pods: y}\n"
    with pytest.raises(TextInvalidError) as caught:
        read_machine(text)
    assert [problem.line for problem in caught.value.problems] == [1, 2, 3]


def test_unknown_machine_names_the_nearest() -> None:
    """A misspelt name is answered with the right one."""
    with pytest.raises(MachineNotFoundError, match="did you mean h100x8"):
        find("h100x88")


def test_a_path_is_found(tmp_path: Path) -> None:
    """A file that is there is used as it is."""
    path = tmp_path / "mine.yaml"
    path.write_text("numa: [0]\n")
    assert load(find(str(path))).name == "mine"


@pytest.mark.parametrize("content", [b"\xff\xfe", None], ids=["not UTF-8", "a folder"])
def test_an_unreadable_file_is_said(tmp_path: Path, content: bytes | None) -> None:
    """Bytes that are no text, or a folder, are told with the path."""
    path = tmp_path / "m.yaml"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(MachineUnreadableError, match=r"m\.yaml"):
        load(path)


def test_demo_steps_are_added(read_machine: ReadMachine) -> None:
    """The text for `simulate` has both timelines, the given name, and no demo any more."""
    text = """\
nvidia: {gpus: {count: 1, pci: [0000:43:00.0]}}
timeline: [{at: 1, lost: 0}]
demo: {pods: 1, timeline: [{at: 2, recover: 0}]}
"""
    merged = read_machine(demo_text(text, "other"))
    assert merged.name == "other"
    assert merged.timeline == (
        Step(verb=Verb.LOST, gpu=0, at=1),
        Step(verb=Verb.RECOVER, gpu=0, at=2),
    )
    assert merged.demo.timeline == ()
    assert merged.nvidia is not None
    assert merged.nvidia.gpus[0].pci_address == "0000:43:00.0"


@pytest.mark.parametrize("name", shipped())
def test_demo_texts_of_shipped_machines_load(name: str) -> None:
    """Each shipped machine, merged for `simulate`, is the same machine with a longer timeline."""
    path = find(name)
    machine = load(path)
    merged = parse(demo_text(path.read_text(), name), file="m.yaml", name="x")
    assert merged.nvidia == machine.nvidia
    assert len(merged.timeline) == len(machine.timeline) + len(machine.demo.timeline)
