"""The folders of a simulated node, and the example config in them."""

from pathlib import Path

import pytest

from deviceplugin.config.load import load
from deviceplugin.simulation.folders import EXAMPLES, ConfigDirError, folders
from deviceplugin.simulation.machine_file import load as load_machine


@pytest.mark.parametrize("vendor", EXAMPLES)
def test_the_example_is_valid_and_changes_nothing(vendor: str) -> None:
    """The example loads without a warning, as one unit for each GPU under its own name."""
    config = load(vendor, EXAMPLES[vendor], file="example.yaml")
    assert config.warnings == ()
    (rule,) = config.rules
    assert (rule.resource, rule.replicas, rule.rename) == (f"{vendor}.com/gpu", 1, None)


@pytest.mark.parametrize("vendor", EXAMPLES)
def test_what_the_example_proposes_is_valid(vendor: str) -> None:
    """Each change that the example's comments propose loads."""
    text = EXAMPLES[vendor].replace("replicas: 1 #", "replicas: 4 #").replace("# rename", "rename")
    text = text.replace("# devices", "devices").replace("single #", "mixed #")
    (rule,) = load(vendor, text, file="example.yaml").rules
    assert (rule.replicas, rule.rename) == (4, f"{vendor}.com/gpu.shared")


def test_everything_temporary_goes() -> None:
    """A fresh node has short paths, a machine that loads and a config; all is removed after."""
    with folders("h100x8", None) as (made, machine):
        assert len(str(made.kubelet / "device-plugins")) < 60
        assert load_machine(made.machine).nvidia == machine.nvidia
        assert made.configs["nvidia"].read_text() == EXAMPLES["nvidia"]
    assert not made.state.exists()


def test_each_vendor_has_a_config() -> None:
    """On a machine with two vendors there is a file for each, in one folder."""
    with folders("mixed", None) as (made, _):
        texts = {vendor: path.read_text() for vendor, path in made.configs.items()}
        assert texts == EXAMPLES
        assert len({path.parent for path in made.configs.values()}) == 1


def test_a_folder_of_the_users_own_stays_as_it_is(tmp_path: Path) -> None:
    """Nothing is written into a given config folder, and it is not removed."""
    with folders("none", str(tmp_path)) as (made, _):
        assert made.configs == {"nvidia": tmp_path / "nvidia.yaml"}
        assert not made.configs["nvidia"].exists()
    assert tmp_path.is_dir()


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    """A config folder that is not there is an error with a remedy."""
    with (
        pytest.raises(ConfigDirError, match="make it"),
        folders("none", str(tmp_path / "x")),
    ):
        pass
