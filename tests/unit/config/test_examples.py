"""The shipped examples load, and say what they mean."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from deviceplugin.config import dialects
from deviceplugin.config.fields import every
from deviceplugin.config.rules import Config, ListedDevices
from deviceplugin.model import Action

Loaded = Callable[..., Config]

EXAMPLES = sorted(path.name for path in (Path(__file__).parents[3] / "configs").glob("*.yaml"))


def test_there_are_examples() -> None:
    """The table below is not empty by mistake."""
    assert {"nvidia.yaml", "time-slicing.yaml", "per-gpu.yaml", "cdi.yaml"} <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_loads(loaded: Loaded, configs: Path, name: str) -> None:
    """Each example loads without a warning, and has comments."""
    text = (configs / name).read_text()
    assert loaded(text).warnings == ()
    assert text.count("#") >= 3


def test_defaults(loaded: Loaded, configs: Path) -> None:
    """nvidia.yaml is the defaults, and mentions every key."""
    text = (configs / "nvidia.yaml").read_text()
    config, bare = loaded(text), loaded("")
    assert config.flags == bare.flags
    assert (config.rules, config.allocation, config.health) == (
        bare.rules,
        bare.allocation,
        bare.health,
    )
    words = set(re.findall(r"\w+", text))
    inner = {"gfd", "gpus", "mig", "rename", "devices", "mps"}
    for loc, _ in every(dialects.of("nvidia").schema):
        if not inner & set(map(str, loc)):
            assert loc[-1] in words


def test_commented_keys_are_right(loaded: Loaded, configs: Path) -> None:
    """What nvidia.yaml holds in comments loads once it is uncommented."""
    text = (configs / "nvidia.yaml").read_text()
    text = re.sub(r"^(  *)# (nvidiaDevRoot|passDeviceSpecs):", r"\1\2:", text, flags=re.MULTILINE)
    text = re.sub(r"^#(   +\S)", r" \1", text.split("# Keys of")[0], flags=re.MULTILINE)
    config = loaded(text.replace("sharing: {}", "sharing:"))
    assert config.rules[0].replicas == 4


def test_per_gpu(loaded: Loaded, configs: Path) -> None:
    """per-gpu.yaml has an entry each by index, model and UUID."""
    rules = loaded((configs / "per-gpu.yaml").read_text()).rules
    assert [type(rule.devices) for rule in rules] == [ListedDevices] * 3
    assert [rule.replicas for rule in rules] == [8, 2, 1]


def test_health(loaded: Loaded, configs: Path) -> None:
    """health.yaml overrides three XIDs."""
    overrides = loaded((configs / "health.yaml").read_text()).health.overrides
    assert overrides == {
        "xid-63": Action.EVENT,
        "xid-79": Action.REBOOT,
        "xid-94": Action.RECOVER,
    }


def test_schema_knows_the_keys_of_the_examples(configs: Path) -> None:
    """The shipped schema has each key that an example writes at the top."""
    schema = json.loads((configs / "schema.json").read_text())
    assert schema["additionalProperties"] is False
    for name in EXAMPLES:
        assert set(yaml.safe_load((configs / name).read_text())) <= set(schema["properties"])
