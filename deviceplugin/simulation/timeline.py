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
    {at: 20, driver: gone}           the driver is unloaded; `back`, or `mismatch`

``at`` is seconds since the start (since the line, in a control file); ``repeat`` does the
step again every so many seconds.
"""

import enum
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


RECOVERY_ACTIONS: Mapping[str, int] = {
    "none": 0,
    "reset": 1,
    "reboot": 2,
    "drain": 3,
    "drain-and-reset": 4,
}
"""Words for the values of NVML's recovery action (field 230)."""

DRIVER_STATES = ("gone", "back", "mismatch")
_OF_ONE_GPU = (Verb.LOST, Verb.RESET, Verb.UNPLUG, Verb.PLUG)
_NEED_GPU = (Verb.XID, Verb.RECOVERY)
_MAX_XID = 999
_MAX_CODE = 999


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens.

    Attributes:
        verb: what.
        gpu: to which GPU, by its index on the complete machine; None for the whole driver
            (``recover``: for everything).
        number: XID, error code, seconds of a hang, milliseconds of latency, recovery action.
        word: the driver's new state.
        at: seconds after the start.
        repeat: seconds until it happens again; None for once.

    """

    verb: Verb
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


def read_steps(sections: Sequence[Section], gpus: int) -> tuple[Step, ...]:
    """Read steps in the order of time; what is wrong goes into the sections' report."""
    steps = [step for section in sections if (step := read_step(section, gpus))]
    return tuple(sorted(steps, key=lambda step: step.at))


def read_line(text: str, gpus: int, *, file: str, line: int) -> Step:
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


def read_step(section: Section, gpus: int) -> Step | None:
    """Read one step; None (and a problem) where it is none."""
    at = section.number("at", 0.0)
    repeat = section.number("repeat", None, low=0.1)
    verb = _verb(section)
    if verb is None:
        return None
    gpu, number, word = _object(section, verb, gpus)
    section.close()
    return Step(verb=verb, gpu=gpu, number=number, word=word, at=at, repeat=repeat)


def _verb(section: Section) -> Verb | None:
    verbs = [verb for verb in Verb if section.has(verb)]
    if len(verbs) == 1:
        return verbs[0]
    names = ", ".join(Verb)
    found = " and ".join(verbs) or "no verb"
    section.report.add(section.node, section.path, f"write one of {names}", found)
    return None


def _object(section: Section, verb: Verb, gpus: int) -> tuple[int | None, float, str]:
    if verb is Verb.DRIVER:
        return None, 0, section.choice(verb, "", DRIVER_STATES)
    if verb is Verb.RECOVER and section.text(verb, "") == "all":
        return None, 0, ""
    if verb is Verb.RECOVER or verb in _OF_ONE_GPU:
        return _gpu(section, verb, gpus), 0, ""
    gpu = _gpu(section, "gpu", gpus) if section.has("gpu") else None
    if gpu is None and verb in _NEED_GPU and not section.has("gpu"):
        section.missing("gpu", "write the index of a GPU")
    section.take("gpu")
    return gpu, _number(section, verb), ""


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
