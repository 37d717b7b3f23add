"""Reads a machine's YAML file, strictly: all problems at once, each with its line.

::

    name: h100x8                    # default: the file's name
    numa: [0-55, 56-111]            # CPUs of NUMA node 0, 1, …
    nvidia:                         # leave out: no driver library on the machine
      driver: 580.95.05
      gpus:                         # this, or a list with a mapping for each GPU
        count: 8
        model: NVIDIA H100 80GB HBM3
        memory: 81559               # MiB
        device: "0x2330"            # PCI device id
        numa: [0, 0, 0, 0, 1, 1, 1, 1]
        pci: ["0000:1b:00.0", …]    # default: made up
    amd: {…}                        # see amd_file.py
    timeline: []                    # see timeline.py
    demo: {pods: 4, every: 2, timeline: []}
"""

import re
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from deviceplugin.errors import DevicePluginError
from deviceplugin.simulation.amd_file import read_amd
from deviceplugin.simulation.gpu_fields import (
    DEVICE,
    PCI,
    addresses,
    like,
    numa_of_each,
    numa_of_one,
    once,
)
from deviceplugin.simulation.machine import Demo, Gpu, Machine, NumaNode, Nvidia
from deviceplugin.simulation.sections import Report, Section, compose
from deviceplugin.simulation.timeline import Gpus, read_steps

MAX_GPUS = 64  # made-up PCI addresses take a bus number each, three apart
_UUID = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CPUS = re.compile(r"(\d+(-\d+)?(,\d+(-\d+)?)*)?")
_MODEL = "NVIDIA H100 80GB HBM3"
_MEMORY_MIB = 81_559
_PCI_DEVICE = "0x2330"


class MachineUnreadableError(DevicePluginError):
    """The machine's file cannot be read."""


def load(path: Path) -> Machine:
    """Read a machine.

    Raises:
        MachineUnreadableError: the file cannot be read as text.
        TextInvalidError: with all problems of the text.

    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MachineUnreadableError(
            f"cannot read the machine {path}: {error}; write a YAML file in UTF-8"
        ) from error
    return parse(text, file=path.name, name=path.stem)


def parse(text: str, *, file: str, name: str) -> Machine:
    """Read a machine from its text; ``name`` is used where the text gives none.

    Raises:
        TextInvalidError: with all problems of the text.

    """
    report = Report(file=file)
    node = compose(text, report)
    machine = Machine(name=name) if node is None else _machine(Section(node, report), name)
    report.check()
    return machine


def _machine(top: Section, name: str) -> Machine:
    name = top.text("name", name)
    numa = _numa(top)
    nvidia = _nvidia(top.section("nvidia"), name, numa)
    amd = read_amd(top.section("amd"), name, numa)
    bare = Machine(name=name, numa=numa, nvidia=nvidia, amd=amd)
    timeline = read_steps(list(top.sections("timeline")), bare.gpus)
    demo = _demo(top.section("demo"), bare.gpus)
    top.close()
    return replace(bare, timeline=timeline, demo=demo)


def _numa(top: Section) -> tuple[NumaNode, ...]:
    cpus = [node.value if isinstance(node, yaml.ScalarNode) else "?" for node in top.items("numa")]
    if not all(_CPUS.fullmatch(entry) for entry in cpus):
        top.wrong("numa", 'write the CPUs of each NUMA node, `[0-7, "8-11,16-19"]`')
    return tuple(NumaNode(id=number, cpus=entry) for number, entry in enumerate(cpus))


def _demo(section: Section | None, gpus: Gpus) -> Demo:
    if section is None:
        return Demo()
    demo = Demo(
        pods=section.integer("pods", 4, high=100),
        every=section.number("every", 2.0, low=0.05),
        timeline=read_steps(list(section.sections("timeline")), gpus),
    )
    section.close()
    return demo


def _nvidia(section: Section | None, name: str, numa: Sequence[NumaNode]) -> Nvidia | None:
    if section is None:
        return None
    driver = section.text("driver", "580.95.05")
    listed = isinstance(section.take("gpus"), yaml.SequenceNode)
    gpus = _listed(section, name, numa) if listed else _counted(section, name, numa)
    once(section, gpus, "uuid", "pci_address", "minor")
    section.close()
    return Nvidia(driver=driver, gpus=gpus)


def _listed(section: Section, name: str, numa: Sequence[NumaNode]) -> tuple[Gpu, ...]:
    sections = list(section.sections("gpus"))
    if len(sections) > MAX_GPUS:
        section.wrong("gpus", f"write at most {MAX_GPUS} GPUs")
    return tuple(_gpu(entry, index, name, numa) for index, entry in enumerate(sections[:MAX_GPUS]))


def _gpu(section: Section, index: int, name: str, numa: Sequence[NumaNode]) -> Gpu:
    gpu = Gpu(
        index=index,
        uuid=like(section, "uuid", made_up_uuid(name, index), _UUID),
        minor=section.integer("minor", index, high=255),
        model=section.text("model", _MODEL),
        memory_mib=section.integer("memory", _MEMORY_MIB, low=1),
        pci_address=like(section, "pci", made_up_address(index), PCI),
        numa_node=numa_of_one(section, numa),
        pci_device=like(section, "device", _PCI_DEVICE, DEVICE),
    )
    section.close()
    return gpu


def _counted(section: Section, name: str, numa: Sequence[NumaNode]) -> tuple[Gpu, ...]:
    entry = section.section("gpus")
    if entry is None:
        section.missing("gpus", "write `{count: 8}`, or a list with a mapping for each GPU")
        return ()
    count = entry.integer("count", 0, high=MAX_GPUS)
    if not entry.has("count"):
        entry.missing("count", f"write the number of GPUs, 0 to {MAX_GPUS}")
    nodes = numa_of_each(entry, count, numa)
    places = addresses(entry, count, made_up_address)
    model = entry.text("model", _MODEL)
    memory = entry.integer("memory", _MEMORY_MIB, low=1)
    device = like(entry, "device", _PCI_DEVICE, DEVICE)
    entry.close()
    return tuple(
        Gpu(
            index=index,
            uuid=made_up_uuid(name, index),
            minor=index,
            model=model,
            memory_mib=memory,
            pci_address=places[index],
            numa_node=nodes[index],
            pci_device=device,
        )
        for index in range(count)
    )


def made_up_uuid(machine: str, index: int) -> str:
    """Return the UUID of a GPU whose file gives none: always the same for the same machine."""
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{machine}.deviceplugin.invalid')}"


def made_up_address(index: int) -> str:
    """Return the PCI address of a GPU whose file gives none."""
    return f"0000:{0x10 + 3 * index:02x}:00.0"


def demo_text(text: str, name: str) -> str:
    """Return a valid machine's text with its demo's timeline added to its own.

    Works on nodes, not on values: a PCI address looks like a number to YAML.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader) or _mapping([])
    pairs = dict(_pairs(node))
    demo = dict(_pairs(pairs.pop("demo", None)))
    steps = [*_elements(pairs.pop("timeline", None)), *_elements(demo.get("timeline"))]
    pairs["name"] = _scalar(name)
    pairs["timeline"] = yaml.SequenceNode("tag:yaml.org,2002:seq", steps)
    merged = _mapping([(_scalar(key), value) for key, value in pairs.items()])
    return str(yaml.serialize(merged, Dumper=yaml.SafeDumper))


def _pairs(node: yaml.Node | None) -> list[tuple[str, yaml.Node]]:
    return [(key.value, value) for key, value in node.value] if node else []


def _elements(node: yaml.Node | None) -> list[yaml.Node]:
    return list(node.value) if node else []


def _scalar(text: str) -> yaml.Node:
    return yaml.ScalarNode("tag:yaml.org,2002:str", text)


def _mapping(pairs: list[tuple[yaml.Node, yaml.Node]]) -> yaml.Node:
    return yaml.MappingNode("tag:yaml.org,2002:map", pairs)
