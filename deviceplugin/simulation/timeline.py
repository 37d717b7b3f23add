"""What happens to a simulated machine, and when.

A step is a mapping with one verb, in a machine file's ``timeline`` or in a control line::

    {at: 20, xid: 79, gpu: 3}        the driver reports an XID
    {at: 20, lost: 3}                GPU 3 stops answering
    {at: 20, hang: 5, gpu: 3}        calls that touch GPU 3 hang for 5 s; without gpu: all calls
    {at: 20, error: 999, gpu: 3}     calls that touch GPU 3 fail so; without gpu: all calls
    {at: 20, latency: 30, gpu: 3}    calls that touch GPU 3 take 30 ms; without gpu: all calls
    {at: 20, recovery: reset, gpu: 3}   the driver asks for a reset (none, reboot, …)
    {at: 40, recover: 3}             GPU 3 is as good as new, without a reset; also `recover: all`
    {at: 40, reset: 3}               the same through a reset: lost for 2 s, then good
    {at: 20, unplug: 3}              GPU 3 leaves the PCI bus; `plug: 3` brings it back
    {at: 20, driver: gone}           the driver is unloaded; `back`, or `mismatch` (NVIDIA)
    {at: 20, ras: umc, gpu: 3}       AMD GPU 3 counts an uncorrectable error in that block
    {at: 20, repartition: CPX/NPS4, gpu: 3}   it is divided anew; without gpu: all that can be

XIDs, hanging, failing and slow calls are NVIDIA's; ``ras`` and ``repartition`` are AMD's. On
a machine with both a step that either could mean names its ``vendor``.

``at`` is seconds since the start (since the line, in a control file); ``repeat`` does the
step again every so many seconds.
"""

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deviceplugin.simulation.sections import Report, Section, compose


class Verb(enum.StrEnum):
    """What a step does."""

    XID = "xid"
    LOST = "lost"
    HANG = "hang"
    ERROR = "error"
    LATENCY = "latency"
    RECOVERY = "recovery"
    RECOVER = "recover"
    RESET = "reset"
    UNPLUG = "unplug"
    PLUG = "plug"
    DRIVER = "driver"
    RAS = "ras"
    REPARTITION = "repartition"


RECOVERY_ACTIONS: Mapping[str, int] = {
    "none": 0,
    "reset": 1,
    "reboot": 2,
    "drain": 3,
    "drain-and-reset": 4,
}
"""Words for the values of NVML's recovery action (field 230)."""

DRIVER_STATES = ("gone", "back", "mismatch")
BLOCKS = ("umc", "sdma", "gfx", "mmhub", "athub", "pcie_bif", "hdp", "xgmi_wafl", "df", "mp0")
"""Parts of an AMD GPU that count memory errors, by the kernel's names."""

PARTITION = re.compile(r"(SPX|DPX|TPX|QPX|CPX)/(NPS[1248])")
"""Compute and memory mode of an AMD GPU."""

_BOTH = frozenset({Verb.RECOVER, Verb.RESET, Verb.UNPLUG, Verb.PLUG, Verb.DRIVER})
VERBS: Mapping[str, frozenset[Verb]] = {
    "nvidia": _BOTH | {Verb.XID, Verb.LOST, Verb.HANG, Verb.ERROR, Verb.LATENCY, Verb.RECOVERY},
    "amd": _BOTH | {Verb.RAS, Verb.REPARTITION},
}
"""What can happen to the hardware of each vendor."""

Gpus = Mapping[str, int]
"""Number of GPUs of a machine by vendor."""

_OF_ONE_GPU = (Verb.LOST, Verb.RESET, Verb.UNPLUG, Verb.PLUG)
_NEED_GPU = (Verb.XID, Verb.RECOVERY, Verb.RAS)
_MAX_XID = 999
_MAX_CODE = 999


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens.

    Attributes:
        verb: what.
        vendor: to whose hardware.
        gpu: to which GPU, by its index on the complete machine; None for the whole driver
            (``recover``: for everything).
        number: XID, error code, seconds of a hang, milliseconds of latency, recovery action.
        word: the driver's new state, the block with the error, the new partition mode.
        at: seconds after the start.
        repeat: seconds until it happens again; None for once.

    """

    verb: Verb
    vendor: str = "nvidia"
    gpu: int | None = None
    number: float = 0
    word: str = ""
    at: float = 0.0
    repeat: float | None = None

    def __str__(self) -> str:
        where = "" if self.gpu is None else f"GPU {self.gpu}"
        return " ".join(part for part in (self.verb.value, self._value(), where) if part)

    def _value(self) -> str:
        if self.verb is Verb.RECOVERY:
            return next(word for word, code in RECOVERY_ACTIONS.items() if code == self.number)
        return f"{self.number:g}" if self.verb in _WITH_NUMBER else self.word


_WITH_NUMBER = (Verb.XID, Verb.HANG, Verb.ERROR, Verb.LATENCY)


def read_steps(sections: Sequence[Section], gpus: Gpus) -> tuple[Step, ...]:
    """Read steps in the order of time; what is wrong goes into the sections' report."""
    steps = [step for section in sections if (step := read_step(section, gpus))]
    return tuple(sorted(steps, key=lambda step: step.at))


def read_line(text: str, gpus: Gpus, *, file: str, line: int) -> Step:
    """Read one step from a line of a control file.

    Raises:
        TextInvalidError: naming the line.

    """
    report = Report(file=file)
    node = compose("\n" * (line - 1) + text, report)
    step = read_step(Section(node, report), gpus) if node else None
    report.check()
    if step is None:
        raise AssertionError(text)  # a node without a step always reports why
    return step


def read_step(section: Section, gpus: Gpus) -> Step | None:
    """Read one step; None (and a problem) where it is none."""
    at = section.number("at", 0.0)
    repeat = section.number("repeat", None, low=0.1)
    verb = _verb(section)
    if verb is None:
        return None
    vendor = _vendor(section, verb, gpus)
    gpu, number, word = _object(section, verb, vendor, gpus.get(vendor, 0))
    section.close()
    return Step(verb=verb, vendor=vendor, gpu=gpu, number=number, word=word, at=at, repeat=repeat)


def _verb(section: Section) -> Verb | None:
    verbs = [verb for verb in Verb if section.has(verb)]
    if len(verbs) == 1:
        return verbs[0]
    names = ", ".join(Verb)
    found = " and ".join(verbs) or "no verb"
    section.report.add(section.node, section.path, f"write one of {names}", found)
    return None


def _vendor(section: Section, verb: Verb, gpus: Gpus) -> str:
    """Find whose step it is: the vendor it names, else the only one that it can mean."""
    able = [vendor for vendor, verbs in VERBS.items() if verb in verbs]
    here = [vendor for vendor in able if gpus.get(vendor)] or able
    if section.has("vendor"):
        named = section.choice("vendor", here[0], tuple(VERBS))
        if named not in able:
            remedy = f"write {' or '.join(able)}: {named} has no step {verb}"
            section.wrong("vendor", remedy)
            return able[0]
        return named
    section.take("vendor")
    if len(here) > 1 and all(gpus.get(vendor) for vendor in here):
        section.missing("vendor", f"write whose GPU it is, {' or '.join(here)}")
    return here[0]


def _object(section: Section, verb: Verb, vendor: str, gpus: int) -> tuple[int | None, float, str]:
    if verb is Verb.DRIVER:
        states = DRIVER_STATES if vendor == "nvidia" else DRIVER_STATES[:2]
        return None, 0, section.choice(verb, "", states)
    if verb is Verb.RECOVER and section.text(verb, "") == "all":
        return None, 0, ""
    if verb is Verb.RECOVER or verb in _OF_ONE_GPU:
        return _gpu(section, verb, gpus), 0, ""
    gpu = _gpu(section, "gpu", gpus) if section.has("gpu") else None
    if gpu is None and verb in _NEED_GPU and not section.has("gpu"):
        section.missing("gpu", "write the index of a GPU")
    section.take("gpu")
    if verb is Verb.RAS:
        return gpu, 0, section.choice(verb, BLOCKS[0], BLOCKS)
    if verb is Verb.REPARTITION:
        return gpu, 0, _mode(section, verb)
    return gpu, _number(section, verb), ""


def _mode(section: Section, verb: Verb) -> str:
    text = section.text(verb, "")
    if not PARTITION.fullmatch(text):
        section.wrong(verb, "write compute and memory mode, as in CPX/NPS4")
    return text


def _gpu(section: Section, key: str, gpus: int) -> int | None:
    if not gpus:
        section.take(key)
        section.wrong(key, "leave the step out: the machine has no GPU")
        return None
    return section.integer(key, None, high=gpus - 1)


def _number(section: Section, verb: Verb) -> float:
    if verb is Verb.RECOVERY:
        return RECOVERY_ACTIONS[section.choice(verb, "none", tuple(RECOVERY_ACTIONS))]
    if verb is Verb.XID:
        return section.integer(verb, 0, low=1, high=_MAX_XID)
    if verb is Verb.ERROR:
        return section.integer(verb, 0, low=1, high=_MAX_CODE)
    return section.number(verb, 0.0)
