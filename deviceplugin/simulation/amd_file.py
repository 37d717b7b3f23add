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

from deviceplugin.simulation.machine import Amd, AmdGpu, NumaNode
from deviceplugin.simulation.sections import Section
from deviceplugin.simulation.timeline import PARTITION

MAX_GPUS = 16
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_UNIQUE = re.compile(r"[0-9a-f]{16}")
_DEVICE = re.compile(r"0x[0-9a-f]{4}")
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
    _once(section, gpus)
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
        pci_address=_like(section, "pci", made_up_address(index), _PCI),
        numa_node=section.integer("numa", None, high=max(0, len(numa) - 1)),
        pci_device=_like(section, "device", _PCI_DEVICE, _DEVICE),
        unique_id=_like(section, "unique", made_up_unique(name, index), _UNIQUE),
        compute=compute,
        memory=memory,
        xccs=section.integer("xccs", 8, low=1, high=8),
        hive=section.integer("hive", None, high=MAX_GPUS),
    )
    if gpu.numa_node is not None and not numa:
        section.wrong("numa", "leave it out, or list the machine's NUMA nodes under `numa`")
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
    nodes = _numbers(entry, "numa", count, len(numa))
    hives = _numbers(entry, "hives", count, MAX_GPUS)
    addresses = _addresses(entry, count)
    modes = _partitions(entry, count)
    model, memory = entry.text("model", _MODEL), entry.integer("memory", _MEMORY_MIB, low=1)
    device = _like(entry, "device", _PCI_DEVICE, _DEVICE)
    xccs = entry.integer("xccs", 8, low=1, high=8)
    entry.close()
    return tuple(
        AmdGpu(
            index=index,
            model=model,
            memory_mib=memory,
            pci_address=addresses[index],
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
    texts = _texts(section, "partition")
    if len(texts) != count:
        section.wrong("partition", f"write one mode, or a list of {count}")
        return [("", "")] * count
    return [_partition(section, text) for text in texts]


def _partition(section: Section, text: str) -> tuple[str, str]:
    match = PARTITION.fullmatch(text)
    if match or not text:
        return (match[1], match[2]) if match else ("", "")
    section.wrong("partition", "write compute and memory mode, as in CPX/NPS4")
    return "", ""


def _numbers(section: Section, key: str, count: int, limit: int) -> Sequence[int | None]:
    texts = _texts(section, key)
    right = all(_NUMBER.fullmatch(text) and int(text) < limit for text in texts)
    if not texts or (right and len(texts) == count):
        return [int(text) for text in texts] or [None] * count
    section.wrong(key, f"write a list of {count} numbers below {limit}")
    return [None] * count


def _addresses(section: Section, count: int) -> Sequence[str]:
    made_up = [made_up_address(index) for index in range(count)]
    texts = _texts(section, "pci")
    if not texts or (len(texts) == count and all(_PCI.fullmatch(text) for text in texts)):
        return texts or made_up
    section.wrong("pci", f"write a list of {count} PCI addresses like {made_up_address(0)}")
    return made_up


def _texts(section: Section, key: str) -> list[str]:
    return [str(getattr(node, "value", "")) for node in section.items(key)]


def _like(section: Section, key: str, default: str, pattern: re.Pattern[str]) -> str:
    text = section.text(key, default)
    if pattern.fullmatch(text):
        return text
    section.wrong(key, f"write it like {default}")
    return default


def _once(section: Section, gpus: Sequence[AmdGpu]) -> None:
    addresses = [gpu.pci_address for gpu in gpus]
    twice = sorted({address for address in addresses if addresses.count(address) > 1})
    if twice:
        section.wrong("gpus", f"give each GPU a pci address of its own ({twice[0]} is there twice)")


def made_up_address(index: int) -> str:
    """Return the PCI address of a GPU whose file gives none; apart from NVIDIA's made-up ones."""
    return f"0000:{0x05 + 8 * index:02x}:00.0"


def made_up_unique(machine: str, index: int) -> str:
    """Return the unique id of a GPU whose file gives none: the same for the same machine."""
    return uuid.uuid5(uuid.NAMESPACE_DNS, f"amd-{index}.{machine}.deviceplugin.invalid").hex[:16]
