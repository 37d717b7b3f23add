"""The shipped examples load, and say what they mean."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
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


def vendor_of(name: str) -> str:
    """Whose example a file is."""
    return "amd" if name.startswith("amd") else "nvidia"


@pytest.mark.parametrize("name", EXAMPLES)
def test_loads(loaded: Loaded, configs: Path, name: str) -> None:
    """Each example loads without a warning, and has comments."""
    text = (configs / name).read_text()
    assert loaded(text, vendor=vendor_of(name)).warnings == ()
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


def test_amd_defaults(loaded: Loaded, configs: Path) -> None:
    """amd.yaml is the defaults, and mentions every key, in comments at least."""
    text = (configs / "amd.yaml").read_text()
    config, bare = loaded(text, vendor="amd"), loaded("", vendor="amd")
    assert replace(config, digest="") == replace(bare, digest="")
    words = set(re.findall(r"\w+", text))
    for loc, _ in every(dialects.of("amd").schema):
        if not {"rename", "devices", "mps"} & set(map(str, loc)):
            assert loc[-1] in words


def test_amd_commented_keys_are_right(loaded: Loaded, configs: Path) -> None:
    """What amd.yaml holds in comments loads once it is uncommented."""
    text = (configs / "amd.yaml").read_text().replace("  #   ras-umc", "    ras-umc")
    text = re.sub(r"^#(   +\S)", r" \1", text, flags=re.MULTILINE)
    text = text.replace("sharing: {}", "sharing:").replace("  actions: {}\n", "")
    text = text.replace("    ras-umc", "  actions:\n    ras-umc")
    config = loaded(text, vendor="amd")
    assert config.rules[0].replicas == 4
    assert config.health.overrides == {"ras-umc": Action.REBOOT}


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
    for name in EXAMPLES:
        file = "amd.schema.json" if vendor_of(name) == "amd" else "schema.json"
        schema = json.loads((configs / file).read_text())
        assert schema["additionalProperties"] is False
        assert set(yaml.safe_load((configs / name).read_text())) <= set(schema["properties"])
