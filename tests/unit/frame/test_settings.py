"""The process's settings: flags over environment over defaults, and what is refused."""

import argparse
from dataclasses import fields
from pathlib import Path

import pytest

from deviceplugin.config.settings import (
    RunSettings,
    SettingsError,
    Timings,
    add_run_flags,
    run_settings,
    timings,
    unread,
)
from deviceplugin.daemon import kubelet_options
from deviceplugin.kubelet.options import KubeletOptions


def read(*flags: str, vendor: str = "nvidia", **environment: str) -> RunSettings:
    """Settings as ``run`` would see them."""
    parser = argparse.ArgumentParser()
    add_run_flags(parser)
    return run_settings(parser.parse_args(flags), environment, vendor)


def test_defaults_are_those_of_a_node() -> None:
    """Without flags and environment, the paths are the kubelet's and the system's own."""
    settings = read()
    assert settings.config == Path("/etc/deviceplugin/nvidia.yaml")
    assert settings.plugin_dir == Path("/var/lib/kubelet/device-plugins")
    assert settings.pod_resources == Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    assert settings.state_dir == Path("/var/lib/deviceplugin")
    assert settings.metrics_address == "127.0.0.1:9481"
    assert settings.timings == Timings()


def test_each_vendor_has_its_own_metrics_port() -> None:
    """Three processes share a host network without a clash."""
    assert len({read(vendor=v).metrics_address for v in ("nvidia", "amd", "rdma")}) == 3


def test_the_pod_resources_socket_follows_the_plugin_folder() -> None:
    """Moving the plugin folder moves PodResources with it, as a kubelet's root does."""
    assert read("--plugin-dir", "/x/dp").pod_resources == Path("/x/pod-resources/kubelet.sock")


@pytest.mark.parametrize(
    ("flag", "value", "field"),
    [
        pytest.param("--config", "/a", "config", id="config"),
        pytest.param("--plugin-dir", "/a", "plugin_dir", id="plugin-dir"),
        pytest.param("--pod-resources", "/a", "pod_resources", id="pod-resources"),
        pytest.param("--state-dir", "/a", "state_dir", id="state-dir"),
        pytest.param("--sysfs", "/a", "sysfs", id="sysfs"),
        pytest.param("--devfs", "/a", "devfs", id="devfs"),
        pytest.param("--procfs", "/a", "procfs", id="procfs"),
        pytest.param("--driver-root", "/a", "driver_root", id="driver-root"),
        pytest.param("--nvml-library", "/a", "nvml_library", id="nvml-library"),
        pytest.param("--simulate", "l4x1", "simulate", id="simulate"),
        pytest.param("--simulate-control", "/a", "simulate_control", id="simulate-control"),
        pytest.param("--metrics-address", "127.0.0.1:0", "metrics_address", id="metrics-address"),
        pytest.param("--log-format", "json", "log_format", id="log-format"),
        pytest.param("--log-level", "debug", "log_level", id="log-level"),
    ],
)
def test_a_flag_and_its_variable_mean_the_same_and_the_flag_wins(
    flag: str, value: str, field: str
) -> None:
    """``--x`` and ``DEVICEPLUGIN_X`` set the same field, and the flag beats the variable."""
    variable = "DEVICEPLUGIN_" + flag[2:].upper().replace("-", "_")
    assert str(getattr(read(flag, value), field)) == value
    assert str(getattr(read(**{variable: value}), field)) == value
    assert str(getattr(read(flag, value, **{variable: "error"}), field)) == value


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("1", True), ("false", False)])
def test_take_over_can_stand_in_the_environment(text: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    """A truth value in the environment is read as YAML users write it."""
    assert read(DEVICEPLUGIN_TAKE_OVER=text).take_over is expected
    assert read("--take-over", DEVICEPLUGIN_TAKE_OVER=text).take_over is True


def test_an_empty_metrics_address_turns_metrics_off() -> None:
    """An empty address is a value of its own, not the default."""
    assert read("--metrics-address", "").metrics_address == ""


@pytest.mark.parametrize("name", [f.name.replace("_", "-") for f in fields(Timings)])
def test_each_timing_can_be_set_by_its_name(name: str) -> None:
    """Every time limit has an effect under its documented name, in both places."""
    field = name.replace("-", "_")
    assert getattr(timings([f"{name}=0.125"]), field) == 0.125
    assert getattr(read(DEVICEPLUGIN_TIMING=f"{name}=0.25").timings, field) == 0.25


def test_each_timing_reaches_the_kubelet_side() -> None:
    """Time limits of the kubelet side have no second place where they are set."""
    flags = [f"--timing={f.name.replace('_', '-')}={n}.5" for n, f in enumerate(fields(Timings))]
    settings = read(*flags)
    options = kubelet_options(settings)
    shared = {f.name for f in fields(Timings)} & {f.name for f in fields(KubeletOptions)}
    assert "audit_settle" in shared
    assert {name: getattr(options, name) for name in shared} == {
        name: getattr(settings.timings, name) for name in shared
    }


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        pytest.param("pause=1", "no such time limit", id="unknown"),
        pytest.param("stream-pause", "seconds as a number above 0", id="no-value"),
        pytest.param("stream-pause=soon", "seconds as a number above 0", id="text"),
        pytest.param("stream-pause=0", "seconds as a number above 0", id="zero"),
        pytest.param("stream-pause=inf", "seconds as a number above 0", id="for-ever"),
        pytest.param("stream-pause=nan", "seconds as a number above 0", id="not-a-number"),
    ],
)
def test_a_wrong_timing_is_refused_with_what_to_write(pair: str, said: str) -> None:
    """A time limit that cannot be used names itself and the right form."""
    with pytest.raises(SettingsError, match=said) as error:
        timings([pair])
    assert pair in str(error.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("DEVICEPLUGIN_LOG_FORMAT", "xml"), ("DEVICEPLUGIN_TAKE_OVER", "maybe")],
)
def test_a_wrong_variable_is_refused_by_its_name(variable: str, value: str) -> None:
    """The message names the variable and what was found there."""
    with pytest.raises(SettingsError, match=variable) as error:
        read(**{variable: value})
    assert value in str(error.value)


def test_a_variable_that_no_flag_reads_is_told() -> None:
    """A misspelt variable is found; those of a Kubernetes service and other programs are left."""
    environment = {
        "DEVICEPLUGIN_PLUGINDIR": "x",
        "DEVICEPLUGIN_PLUGIN_DIR": "x",
        "DEVICEPLUGIN_TIMING": "stop=1",
        "DEVICEPLUGIN_SERVICE_HOST": "10.0.0.1",
        "DEVICEPLUGIN_PORT_9481_TCP": "tcp://10.0.0.1:9481",
        "PATH": "/bin",
    }
    assert unread(environment) == ("DEVICEPLUGIN_PLUGINDIR",)
