"""AMD's config: each key does what it says, and mistakes are named with the remedy."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from deviceplugin.config import dialects
from deviceplugin.config.document import path
from deviceplugin.config.fields import every
from deviceplugin.config.rules import Config, ListedDevices, Problem
from deviceplugin.model import Action, Policy

Loaded = Callable[..., Config]
Refused = Callable[..., tuple[Problem, ...]]

# key: (the text with it, the field of the options that it sets)
FLAGS = {
    "flags.partitionStrategy": ("flags: {partitionStrategy: mixed}", "partition_strategy"),
    "flags.plugin.deviceListStrategy": (
        "flags: {plugin: {deviceListStrategy: [cdi-cri, cdi-cri]}}",
        "device_list_strategies",
    ),
    "flags.plugin.cdiAnnotationPrefix": (
        "flags: {plugin: {cdiAnnotationPrefix: x.io/}}",
        "cdi_annotation_prefix",
    ),
    "flags.plugin.addressesEnv": ("flags: {plugin: {addressesEnv: true}}", "addresses_env"),
    "health.uncorrectableErrors": ("health: {uncorrectableErrors: 3}", "uncorrectable_errors"),
    "health.retiredPages": ("health: {retiredPages: 9}", "retired_pages"),
    "health.exporterSocket": ('health: {exporterSocket: ""}', "exporter_socket"),
    "health.kfdEvents": ("health: {kfdEvents: true}", "kfd_events"),
    "health.amdsmi": ("health: {amdsmi: true}", "amdsmi"),
}
ELSEWHERE = {
    "version",
    "flags",
    "flags.plugin",
    "flags.plugin.sharedDevicesAllocationPolicy",
    "health",
    "health.actions",
}


def test_every_key_is_here() -> None:
    """The table has each key of the schema that is AMD's own."""
    keys = {path(loc) for loc, _ in every(dialects.of("amd").schema)}
    assert {key for key in keys if not key.startswith("sharing")} == set(FLAGS) | ELSEWHERE


@pytest.mark.parametrize(("text", "name"), FLAGS.values(), ids=FLAGS)
def test_a_key_sets_its_option_alone(loaded: Loaded, text: str, name: str) -> None:
    """Each key changes one option, and nothing else of the config."""
    base, changed = loaded("", vendor="amd"), loaded(text, vendor="amd")
    assert getattr(changed.flags, name) != getattr(base.flags, name)
    flags = replace(changed.flags, **{name: getattr(base.flags, name)})  # type: ignore[type-var]
    assert replace(changed, flags=flags, digest="") == replace(base, digest="")


def test_the_rest(loaded: Loaded) -> None:
    """Policy and actions reach the rules that all vendors share."""
    config = loaded(
        "flags: {plugin: {sharedDevicesAllocationPolicy: packed}}\n"
        "health: {actions: {ras-umc: reboot, lost: ignore}}",
        vendor="amd",
    )
    assert config.allocation.policy is Policy.PACKED
    assert config.health.overrides == {"ras-umc": Action.REBOOT, "lost": Action.IGNORE}


def test_names_have_the_domain(loaded: Loaded) -> None:
    """A bare resource name is AMD's."""
    text = "sharing: {timeSlicing: {resources: [{name: cpx_nps4, replicas: 2, rename: eighth}]}}"
    (rule,) = loaded(text, vendor="amd").rules
    assert (rule.resource, rule.rename) == ("amd.com/cpx_nps4", "amd.com/eighth")


SHARED = "sharing: {{timeSlicing: {{resources: [{{name: gpu, replicas: 2, devices: [{0}]}}]}}}}"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("3", "3"),
        ('"0000:05:00.0"', "0000:05:00.0"),
        ('"0000:05:00.0-p3"', "0000:05:00.0-p3"),
        ('"0000:C6:00.0"', "0000:c6:00.0"),
        ('"model:*MI300X*"', "model:*MI300X*"),
    ],
)
def test_devices(loaded: Loaded, written: str, name: str) -> None:
    """Devices are named by index, address, partition or model; hexadecimal in lower case."""
    (rule,) = loaded(SHARED.format(written), vendor="amd").rules
    assert rule.devices == ListedDevices(names=(name,))


@pytest.mark.parametrize(
    ("text", "found", "remedy"),
    [
        (SHARED.format('"05:00.0"'), "05:00.0", "write the whole address, 0000:05:00.0"),
        (SHARED.format("GPU-123"), "GPU-123", "a PCI address such as 0000:05:00.0"),
        (SHARED.format("card1"), "card1", "a PCI address such as 0000:05:00.0"),
        (SHARED.format('"0000:05:00.0-px"'), "-px", "a partition such as"),
        ("resource_naming_strategy: mixed", "an unknown key", "flags.partitionStrategy"),
        ("flags: {migStrategy: mixed}", "an unknown key", "flags.partitionStrategy"),
        ("flags: {pulse: 3}", "an unknown key", "remove it"),
        ("gpu-config-profiles: {}", "an unknown key", "AMD's config manager"),
        ("flags: {partitionStrategy: none}", "none", "single"),
        ("flags: {plugin: {deviceListStrategy: envvar}}", "envvar", "device-nodes"),
        ("flags: {plugin: {deviceListStrategy: []}}", "an empty list", "device-nodes"),
        ("health: {uncorrectableErrors: -1}", "-1", "write"),
        ("health: {exporterSocket: x.sock}", "x.sock", "absolute path"),
        ("health: {actions: {ras: reset}}", "ras", "ras-BLOCK such as ras-umc"),
        ("health: {actions: {ras-umc: ignroe}}", "ignroe", "ignore"),
        ("health: {xids: {79: ignore}}", "an unknown key", ""),
        ("sharing: {mps: {replicas: 2}}", "MPS", "no such thing: use timeSlicing"),
    ],
)
def test_mistakes(refused: Refused, text: str, found: str, remedy: str) -> None:
    """What is wrong is named, with what to write instead."""
    (problem, *_) = refused(text, vendor="amd")
    assert found in problem.found
    assert remedy in problem.remedy
