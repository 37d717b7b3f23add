"""Small simulated machines."""

from collections.abc import Callable

import pytest

from deviceplugin.simulation.machine import Machine
from deviceplugin.simulation.machine_file import parse

TWO_GPUS = """\
name: small
numa: [0-3, 4-7]
nvidia:
  driver: 1.2.3
  gpus: {count: 2, model: Model, memory: 100, numa: [0, 1]}
"""

ReadMachine = Callable[[str], Machine]


@pytest.fixture
def read_machine() -> ReadMachine:
    """Read a machine from its text; its file is called m.yaml."""

    def read(text: str) -> Machine:
        return parse(text, file="m.yaml", name="m")

    return read


@pytest.fixture
def machine(read_machine: ReadMachine) -> Machine:
    """Two GPUs on two NUMA nodes."""
    return read_machine(TWO_GPUS)
