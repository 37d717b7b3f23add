"""What the user's page on simulation shows is true."""

import re
from pathlib import Path

from deviceplugin.simulation.machine import shipped
from deviceplugin.simulation.machine_file import parse
from deviceplugin.simulation.timeline import DRIVER_STATES, RECOVERY_ACTIONS, Verb, read_line

PAGE = (Path(__file__).parents[3] / "docs/user/simulation.md").read_text()


def test_the_example_machine_loads() -> None:
    """The machine on the page is one, with all that it shows."""
    text = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert text
    machine = parse(text[1], file="page", name="page")
    assert machine.name == "lab"
    assert machine.nvidia is not None
    assert len(machine.nvidia.gpus) == 4
    assert (len(machine.timeline), len(machine.demo.timeline)) == (2, 2)


def _amd(line: str) -> dict[str, int]:
    """GPUs of AMD's, on the machine that the step is for."""
    return {"amd": 4} if any(word in line for word in ("ras", "repartition", "amd")) else {}


def test_every_step_on_the_page_is_one() -> None:
    """Each step in braces can be read, and each verb and word is there."""
    lines = re.findall(r"`(\{[^`]+\})`", PAGE)
    verbs = {
        read_line(line, {"nvidia": 4, **_amd(line)}, file="page", line=1).verb for line in lines
    }
    assert verbs == set(Verb)
    assert all(f"driver: {word}" in PAGE for word in DRIVER_STATES)
    assert all(word in PAGE for word in RECOVERY_ACTIONS)


def test_every_shipped_machine_is_named() -> None:
    """The page names the machines that there are."""
    assert all(f"`{name}`" in PAGE for name in shipped())
