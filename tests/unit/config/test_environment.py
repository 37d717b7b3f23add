"""The incumbents' environment variables."""

from collections.abc import Callable, Mapping

import pytest

from deviceplugin.config.nvidia_options import NvidiaFlags
from deviceplugin.config.rules import Config, HealthPolicy, Problem
from deviceplugin.model import Action, Policy

Loaded = Callable[..., Config]
Refused = Callable[..., tuple[Problem, ...]]

FLAGS = {
    "PASS_DEVICE_SPECS": ("true", NvidiaFlags(pass_device_specs=True)),
    "DEVICE_LIST_STRATEGY": (
        "cdi-cri, envvar",
        NvidiaFlags(device_list_strategies=("cdi-cri", "envvar")),
    ),
    "DEVICE_ID_STRATEGY": ("index", NvidiaFlags(device_id_strategy="index")),
    "NVIDIA_DRIVER_ROOT": ("/run/driver", NvidiaFlags(nvidia_driver_root="/run/driver")),
    "NVIDIA_DEV_ROOT": ("/run/dev", NvidiaFlags(nvidia_dev_root="/run/dev")),
    "DRIVER_ROOT_CTR_PATH": ("/d", NvidiaFlags(container_driver_root="/d")),
    "CONTAINER_DRIVER_ROOT": ("/d", NvidiaFlags(container_driver_root="/d")),
    "CDI_ANNOTATION_PREFIX": ("x.io/", NvidiaFlags(cdi_annotation_prefix="x.io/")),
}


@pytest.mark.parametrize(("name", "case"), FLAGS.items(), ids=FLAGS)
def test_flags(loaded: Loaded, name: str, case: tuple[str, NvidiaFlags]) -> None:
    """A variable sets the flag it is known for, without a word in the file."""
    text, flags = case
    config = loaded("", {name: text})
    assert config.flags == flags
    assert config.warnings == ()


def test_overrides_the_file(loaded: Loaded) -> None:
    """A variable wins over the file; the file's other keys stay."""
    text = "flags: {nvidiaDriverRoot: /file, plugin: {passDeviceSpecs: true}}"
    config = loaded(text, {"NVIDIA_DRIVER_ROOT": "/env", "DEVICE_ID_STRATEGY": "index"})
    assert config.flags == NvidiaFlags(
        nvidia_driver_root="/env", pass_device_specs=True, device_id_strategy="index"
    )


def test_policy(loaded: Loaded) -> None:
    """The allocation policy can come from the environment."""
    config = loaded("", {"SHARED_DEVICES_ALLOCATION_POLICY": "packed"})
    assert config.allocation.policy is Policy.PACKED


def test_unset(loaded: Loaded) -> None:
    """Empty variables and those of others change nothing."""
    env = {"MIG_STRATEGY": "", "PASS_DEVICE_SPECS": "", "DP_DISABLE_HEALTHCHECKS": "", "PATH": "/"}
    assert loaded("", env) == loaded("")


NO_EFFECT = {
    "FAIL_ON_INIT_ERROR": "false",
    "GDRCOPY_ENABLED": "false",
    "GDS_ENABLED": "0",
    "MOFED_ENABLED": "f",
    "MPS_ROOT": "/run/nvidia/mps",
    "DEVICE_DISCOVERY_STRATEGY": "nvml",
    "NVIDIA_CDI_HOOK_PATH": "/usr/bin/x",
    "NVIDIA_CTK_PATH": "/usr/bin/x",
    "USE_NODE_FEATURE_API": "true",
    "CDI_FEATURE_FLAGS": "x",
    "CDI_DISABLE_HOOKS": "x",
    "IMEX_REQUIRED": "true",
    "CONFIG_FILE": "/etc/x.yaml",
    "KUBELET_SOCKET": "/x/kubelet.sock",
}


@pytest.mark.parametrize(("name", "text"), NO_EFFECT.items(), ids=NO_EFFECT)
def test_no_effect(loaded: Loaded, name: str, text: str) -> None:
    """A variable without effect here gives exactly one warning."""
    (warning,) = loaded("", {name: text}).warnings
    assert warning.startswith(f"environment: {name} has no effect here: ")


BAD = {
    "MIG_STRATEGY": ("mixed", '"mixed"', "not supported yet"),
    "GDS_ENABLED": ("true", "true", "write false"),
    "PASS_DEVICE_SPECS": ("maybe", '"maybe"', "write true or false"),
    "DEVICE_LIST_STRATEGY": ("envvar,cdi", '"cdi"', "write cdi-cri"),
    "DEVICE_ID_STRATEGY": ("uid", '"uid"', "write uuid"),
    "NVIDIA_DRIVER_ROOT": ("run", '"run"', "an absolute path"),
    "SHARED_DEVICES_ALLOCATION_POLICY": ("spread", '"spread"', "distributed, packed"),
    "IMEX_CHANNEL_IDS": ("0", "the list [0]", "not supported"),
    "DP_DISABLE_HEALTHCHECKS": ("79,ecc", '"ecc"', "XID numbers"),
    "DP_ENABLE_HEALTHCHECKS": ("0", '"0"', "XID numbers"),
}


@pytest.mark.parametrize(("name", "case"), BAD.items(), ids=BAD)
def test_refused(refused: Refused, name: str, case: tuple[str, str, str]) -> None:
    """A wrong value is refused under the variable's name."""
    text, found, remedy = case
    (problem,) = refused("", {name: text})
    assert str(problem).startswith(f"environment: {name}: found {found}; ")
    assert remedy in problem.remedy


def test_no_number_of_a_channel(refused: Refused) -> None:
    """Text among channel numbers is named as such."""
    (problem,) = refused("", {"IMEX_CHANNEL_IDS": "0,x"})
    assert problem.remedy == "write numbers, separated by commas"


def test_two_names_of_one_flag(loaded: Loaded, refused: Refused) -> None:
    """Two variables of one flag may agree, but not differ."""
    same = {"DRIVER_ROOT_CTR_PATH": "/a", "CONTAINER_DRIVER_ROOT": "/a"}
    assert loaded("", same).flags == NvidiaFlags(container_driver_root="/a")
    (problem,) = refused("", {**same, "CONTAINER_DRIVER_ROOT": "/b"})
    assert problem.path == "CONTAINER_DRIVER_ROOT"
    assert 'DRIVER_ROOT_CTR_PATH="/a"' in problem.remedy


HEALTH: dict[str, tuple[Mapping[str, str], tuple[str, ...], tuple[str, ...]]] = {
    "all off": ({"DP_DISABLE_HEALTHCHECKS": "all"}, ("xid-*",), ()),
    "xids off": ({"DP_DISABLE_HEALTHCHECKS": "xids"}, ("xid-*",), ()),
    "some off": ({"DP_DISABLE_HEALTHCHECKS": " 79, 94 "}, ("xid-79", "xid-94"), ()),
    "all on": ({"DP_ENABLE_HEALTHCHECKS": "ALL"}, (), ("xid-*",)),
    "79 alone": (
        {"DP_DISABLE_HEALTHCHECKS": "all", "DP_ENABLE_HEALTHCHECKS": "79"},
        ("xid-*",),
        ("xid-79",),
    ),
}


@pytest.mark.parametrize(("env", "disabled", "enabled"), HEALTH.values(), ids=HEALTH)
def test_health(
    loaded: Loaded, env: Mapping[str, str], disabled: tuple[str, ...], enabled: tuple[str, ...]
) -> None:
    """Both health variables take numbers and all; "disable all, enable 79" keeps both."""
    config = loaded("health: {xids: {31: event}}", env)
    overrides = {"xid-31": Action.EVENT}
    assert config.health == HealthPolicy(overrides=overrides, disabled=disabled, enabled=enabled)


def test_other_vendors_do_not_listen(loaded: Loaded) -> None:
    """NVIDIA's variables mean nothing to another vendor."""
    env = {"MIG_STRATEGY": "mixed", "DP_DISABLE_HEALTHCHECKS": "x"}
    assert loaded("", env, vendor="acme") == loaded("", vendor="acme")
