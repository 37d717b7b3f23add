"""Reads the ``amd`` section of a machine's YAML file.

::

    amd:                            # leave out: amdgpu is not loaded
      driver: 6.14.14
      gpus:                         # this, or a list with a mapping for each GPU
        count: 8
        model: AMD Instinct MI300X
        memory: 196592              # MiB, of the whole GPU
        device: "0x74a1"            # PCI device id
        numa: [0, 0, 0, 0, 1, 1, 1, 1]
        pci: ["0000:05:00.0", …]    # default: made up
        partition: SPX/NPS1         # or a list, one for each GPU; left out: cannot be partitioned
        xccs: 8                     # compute dies: partitions in CPX
        hives: [0, 0, 0, 0, 1, 1, 1, 1]   # left out: no XGMI links
"""

import re
import uuid
from collections.abc import Sequence

import yaml

from deviceplugin.simulation.gpu_fields import (
    DEVICE,
    PCI,
    addresses,
    like,
    numa_of_each,
    numa_of_one,
    once,
    texts,
)
from deviceplugin.simulation.machine import Amd, AmdGpu, NumaNode
from deviceplugin.simulation.sections import Section
from deviceplugin.simulation.timeline import PARTITION

MAX_GPUS = 16
_UNIQUE = re.compile(r"[0-9a-f]{16}")
_NUMBER = re.compile(r"[0-9]{1,3}")
_MODEL = "AMD Instinct MI300X"
_MEMORY_MIB = 196_592
_PCI_DEVICE = "0x74a1"


def read_amd(section: Section | None, name: str, numa: Sequence[NumaNode]) -> Amd | None:
    """Read the section; None where it is not there."""
    if section is None:
        return None
    driver = section.text("driver", "6.14.14")
    listed = isinstance(section.take("gpus"), yaml.SequenceNode)
    gpus = _listed(section, name, numa) if listed else _counted(section, name, numa)
    once(section, gpus, "pci_address")
    section.close()
    return Amd(driver=driver, gpus=gpus)


def _listed(section: Section, name: str, numa: Sequence[NumaNode]) -> tuple[AmdGpu, ...]:
    sections = list(section.sections("gpus"))
    if len(sections) > MAX_GPUS:
        section.wrong("gpus", f"write at most {MAX_GPUS} GPUs")
    return tuple(_gpu(entry, index, name, numa) for index, entry in enumerate(sections[:MAX_GPUS]))


def _gpu(section: Section, index: int, name: str, numa: Sequence[NumaNode]) -> AmdGpu:
    compute, memory = _partition(section, section.text("partition", ""))
    gpu = AmdGpu(
        index=index,
        model=section.text("model", _MODEL),
        memory_mib=section.integer("memory", _MEMORY_MIB, low=1),
        pci_address=like(section, "pci", made_up_address(index), PCI),
        numa_node=numa_of_one(section, numa),
        pci_device=like(section, "device", _PCI_DEVICE, DEVICE),
        unique_id=like(section, "unique", made_up_unique(name, index), _UNIQUE),
        compute=compute,
        memory=memory,
        xccs=section.integer("xccs", 8, low=1, high=8),
        hive=section.integer("hive", None, high=MAX_GPUS),
    )
    section.close()
    return gpu


def _counted(section: Section, name: str, numa: Sequence[NumaNode]) -> tuple[AmdGpu, ...]:
    entry = section.section("gpus")
    if entry is None:
        section.missing("gpus", "write `{count: 8}`, or a list with a mapping for each GPU")
        return ()
    count = entry.integer("count", 0, high=MAX_GPUS)
    if not entry.has("count"):
        entry.missing("count", f"write the number of GPUs, 0 to {MAX_GPUS}")
    nodes = numa_of_each(entry, count, numa)
    hives = _hives(entry, count)
    places = addresses(entry, count, made_up_address)
    modes = _partitions(entry, count)
    model, memory = entry.text("model", _MODEL), entry.integer("memory", _MEMORY_MIB, low=1)
    device = like(entry, "device", _PCI_DEVICE, DEVICE)
    xccs = entry.integer("xccs", 8, low=1, high=8)
    entry.close()
    return tuple(
        AmdGpu(
            index=index,
            model=model,
            memory_mib=memory,
            pci_address=places[index],
            numa_node=nodes[index],
            pci_device=device,
            unique_id=made_up_unique(name, index),
            compute=modes[index][0],
            memory=modes[index][1],
            xccs=xccs,
            hive=hives[index],
        )
        for index in range(count)
    )


def _partitions(section: Section, count: int) -> Sequence[tuple[str, str]]:
    node = section.take("partition")
    if not isinstance(node, yaml.SequenceNode):
        return [_partition(section, section.text("partition", ""))] * count
    written = texts(section, "partition")
    if len(written) != count:
        section.wrong("partition", f"write one mode, or a list of {count}")
        return [("", "")] * count
    return [_partition(section, text) for text in written]


def _partition(section: Section, text: str) -> tuple[str, str]:
    match = PARTITION.fullmatch(text)
    if match or not text:
        return (match[1], match[2]) if match else ("", "")
    section.wrong("partition", "write compute and memory mode, as in CPX/NPS4")
    return "", ""


def _hives(section: Section, count: int) -> Sequence[int | None]:
    written = texts(section, "hives")
    right = all(_NUMBER.fullmatch(text) for text in written) and len(written) == count
    if right or not written:
        return [int(text) for text in written] or [None] * count
    section.wrong("hives", f"write a list of {count} numbers, the same for GPUs of one hive")
    return [None] * count


def made_up_address(index: int) -> str:
    """Return the PCI address of a GPU whose file gives none; apart from NVIDIA's made-up ones."""
    return f"0000:{0x05 + 8 * index:02x}:00.0"


def made_up_unique(machine: str, index: int) -> str:
    """Return the unique id of a GPU whose file gives none: the same for the same machine."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, f"amd-{index}.{machine}.deviceplugin.invalid").hex[:16]
