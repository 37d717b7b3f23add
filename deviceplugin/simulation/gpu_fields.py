"""Fields that the GPUs of all vendors have in a machine's file, read strictly."""

import re
from collections.abc import Callable, Sequence

from deviceplugin.simulation.machine import NumaNode
from deviceplugin.simulation.sections import Section

PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
DEVICE = re.compile(r"0x[0-9a-f]{4}")


def like(section: Section, key: str, default: str, pattern: re.Pattern[str]) -> str:
    """Read a text of one form; what is wrong is told by the example of the default."""
    text = section.text(key, default)
    if pattern.fullmatch(text):
        return text
    section.wrong(key, f"write it like {default}")
    return default


def texts(section: Section, key: str) -> list[str]:
    """Read a list of scalars as they stand."""
    return [str(getattr(node, "value", "")) for node in section.items(key)]


def addresses(section: Section, count: int, made_up: Callable[[int], str]) -> Sequence[str]:
    """Read a PCI address for each GPU, or make them up."""
    written = texts(section, "pci")
    right = len(written) == count and all(PCI.fullmatch(text) for text in written)
    if right or not written:
        return written or [made_up(index) for index in range(count)]
    section.wrong("pci", f"write a list of {count} PCI addresses like {made_up(0)}")
    return [made_up(index) for index in range(count)]


def numa_of_each(section: Section, count: int, numa: Sequence[NumaNode]) -> Sequence[int | None]:
    """Read a NUMA node for each GPU; unknown where there is no list."""
    written = texts(section, "numa")
    known = {str(node.id): node.id for node in numa}
    if not written or (len(written) == count and all(text in known for text in written)):
        return [known[text] for text in written] or [None] * count
    nodes = ", ".join(known) or "none: list them under `numa` at the top"
    section.wrong("numa", f"write a list of {count} NUMA nodes (the machine has {nodes})")
    return [None] * count


def numa_of_one(section: Section, numa: Sequence[NumaNode]) -> int | None:
    """Read the NUMA node of one GPU."""
    node = section.integer("numa", None, high=max(0, len(numa) - 1))
    if node is not None and not numa:
        section.wrong("numa", "leave it out, or list the machine's NUMA nodes under `numa`")
    return node


def once(section: Section, gpus: Sequence[object], *fields: str) -> None:
    """Refuse GPUs that share what each must have of its own."""
    for field in fields:
        values = [getattr(gpu, field) for gpu in gpus]
        twice = sorted({str(value) for value in values if values.count(value) > 1})
        if twice:
            section.wrong("gpus", f"give each GPU a {field} of its own ({twice[0]} is there twice)")
