"""The folders of a simulated node, and the example config in them."""

from pathlib import Path

import pytest

from deviceplugin.config.load import load
from deviceplugin.simulation.folders import EXAMPLE, ConfigDirError, folders
from deviceplugin.simulation.machine_file import load as load_machine


def test_the_example_is_valid_and_changes_nothing() -> None:
    """The example loads without a warning, as one unit for each GPU under its own name."""
    config = load("nvidia", EXAMPLE, file="nvidia.yaml")
    assert config.warnings == ()
    (rule,) = config.rules
    assert (rule.resource, rule.replicas, rule.rename) == ("nvidia.com/gpu", 1, None)


def test_what_the_example_proposes_is_valid() -> None:
    """Each change that the example's comments propose loads."""
    text = EXAMPLE.replace("replicas: 1 #", "replicas: 4 #").replace("# rename", "rename")
    (rule,) = load("nvidia", text.replace("# devices", "devices"), file="nvidia.yaml").rules
    assert (rule.replicas, rule.rename) == (4, "nvidia.com/gpu.shared")


def test_everything_temporary_goes() -> None:
    """A fresh node has short paths, a machine that loads and a config; all is removed after."""
    with folders("h100x8", None, "nvidia") as (made, machine):
        assert len(str(made.kubelet / "device-plugins")) < 60
        assert load_machine(made.machine).nvidia == machine.nvidia
        assert made.config.read_text() == EXAMPLE
    assert not made.state.exists()


def test_a_folder_of_the_users_own_stays_as_it_is(tmp_path: Path) -> None:
    """Nothing is written into a given config folder, and it is not removed."""
    with folders("none", str(tmp_path), "nvidia") as (made, _):
        assert made.config == tmp_path / "nvidia.yaml"
        assert not made.config.exists()
    assert tmp_path.is_dir()


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    """A config folder that is not there is an error with a remedy."""
    with (
        pytest.raises(ConfigDirError, match="make it"),
        folders("none", str(tmp_path / "x"), "nvidia"),
    ):
        pass
