"""A config without content, and the options that vendors read."""

from collections.abc import Callable

import pytest

from deviceplugin.config.load import ConfigInvalidError, default_config
from deviceplugin.config.nvidia_options import NvidiaFlags
from deviceplugin.config.rules import Config

Loaded = Callable[..., Config]


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "---\n", "null\n", "{}\n", "version: v1\n", "flags:\nsharing:\n"]
)
def test_no_content(loaded: Loaded, text: str) -> None:
    """A text without content, or with keys without values, is the defaults."""
    config = loaded(text)
    assert config.flags == NvidiaFlags()
    assert config.rules == ()
    assert config.warnings == ()
    assert config.allocation == Config().allocation
    assert config.health == Config().health


def test_default_config() -> None:
    """Without a file there are the defaults, under that name."""
    config = default_config("nvidia")
    assert config.source == "defaults"
    assert config.flags == NvidiaFlags()


def test_default_config_hears_the_environment() -> None:
    """Variables count without a file too."""
    config = default_config("nvidia", {"DEVICE_ID_STRATEGY": "index"})
    assert isinstance(config.flags, NvidiaFlags)
    assert config.flags.device_id_strategy == "index"
    with pytest.raises(ConfigInvalidError, match="environment: DEVICE_ID_STRATEGY: found"):
        default_config("nvidia", {"DEVICE_ID_STRATEGY": "name"})


@pytest.mark.parametrize(
    ("written", "strategies"),
    [
        ("envvar", ("envvar",)),
        ("[cdi-cri, envvar]", ("cdi-cri", "envvar")),
        ("[envvar, envvar]", ("envvar",)),
    ],
    ids=["word", "list", "twice"],
)
def test_strategies(loaded: Loaded, written: str, strategies: tuple[str, ...]) -> None:
    """The list strategy is a word or a list; each counts once, in the order of the file."""
    flags = loaded(f"flags: {{plugin: {{deviceListStrategy: {written}}}}}").flags
    assert isinstance(flags, NvidiaFlags)
    assert flags.device_list_strategies == strategies
