"""Loading texts in one word."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from deviceplugin.config.load import ConfigInvalidError, load
from deviceplugin.config.rules import Config, Problem

Loaded = Callable[..., Config]
Refused = Callable[..., tuple[Problem, ...]]

FILE = "nvidia.yaml"


@pytest.fixture(scope="session")
def configs() -> Path:
    """Return the folder of the shipped examples."""
    return Path(__file__).parents[3] / "configs"


@pytest.fixture(scope="session")
def loaded() -> Loaded:
    """Return a function that loads a text as NVIDIA's."""

    def do(text: str, env: Mapping[str, str] | None = None, vendor: str = "nvidia") -> Config:
        return load(vendor, text, file=FILE, env=env)

    return do


@pytest.fixture(scope="session")
def refused() -> Refused:
    """Return a function that expects a text to be refused, and gives the problems."""

    def do(
        text: str, env: Mapping[str, str] | None = None, vendor: str = "nvidia"
    ) -> tuple[Problem, ...]:
        with pytest.raises(ConfigInvalidError) as caught:
            load(vendor, text, file=FILE, env=env)
        assert caught.value.problems
        return caught.value.problems

    return do
