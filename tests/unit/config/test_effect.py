"""Every key of the schema changes something: the config, a warning, or it is refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from deviceplugin.config import dialects
from deviceplugin.config.document import path
from deviceplugin.config.fields import every, extra
from deviceplugin.config.load import ConfigInvalidError, load
from deviceplugin.config.rules import Config

KEYS = {path(loc): field for loc, field in every(dialects.of("nvidia").schema)}

SLICED = "sharing: {timeSlicing: {replicas: 2}}"
LISTED = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}"

# key: (without it, with it, what differs)
EFFECTS = {
    "version": ("", "version: v2", "refused"),
    "sharing": ("", SLICED, "rules"),
    "sharing.timeSlicing": ("", SLICED, "rules"),
    "sharing.timeSlicing.replicas": ("", SLICED, "rules"),
    "sharing.timeSlicing.renameByDefault": (
        SLICED,
        "sharing: {timeSlicing: {replicas: 2, renameByDefault: true}}",
        "rules",
    ),
    "sharing.timeSlicing.failRequestsGreaterThanOne": (
        SLICED,
        "sharing: {timeSlicing: {replicas: 2, failRequestsGreaterThanOne: true}}",
        "allocation",
    ),
    "sharing.timeSlicing.resources": ("", LISTED, "rules"),
    "sharing.timeSlicing.resources.name": (LISTED, LISTED.replace("gpu", "gpu.x"), "rules"),
    "sharing.timeSlicing.resources.replicas": (LISTED, LISTED.replace("2", "3"), "rules"),
    "sharing.timeSlicing.resources.rename": (LISTED, LISTED.replace("2", "2, rename: x"), "rules"),
    "sharing.timeSlicing.resources.devices": (
        LISTED,
        LISTED.replace("2", "2, devices: 1"),
        "rules",
    ),
    "sharing.mps": ("", "sharing: {mps: {replicas: 2}}", "refused"),
    "flags": ("", "flags: {nvidiaDriverRoot: /x}", "flags"),
    "flags.migStrategy": ("", "flags: {migStrategy: mixed}", "refused"),
    "flags.failOnInitError": ("", "flags: {failOnInitError: true}", "warnings"),
    "flags.nvidiaDriverRoot": ("", "flags: {nvidiaDriverRoot: /x}", "flags"),
    "flags.nvidiaDevRoot": ("", "flags: {nvidiaDevRoot: /x}", "flags"),
    "flags.gdrcopyEnabled": ("", "flags: {gdrcopyEnabled: true}", "refused"),
    "flags.gdsEnabled": ("", "flags: {gdsEnabled: true}", "refused"),
    "flags.mofedEnabled": ("", "flags: {mofedEnabled: true}", "refused"),
    "flags.useNodeFeatureAPI": ("", "flags: {useNodeFeatureAPI: true}", "warnings"),
    "flags.deviceDiscoveryStrategy": ("", "flags: {deviceDiscoveryStrategy: nvml}", "warnings"),
    "flags.mpsRoot": ("", "flags: {mpsRoot: /x}", "warnings"),
    "flags.restartOnDriverMismatch": ("", "flags: {restartOnDriverMismatch: true}", "flags"),
    "flags.plugin": ("", "flags: {plugin: {passDeviceSpecs: true}}", "flags"),
    "flags.plugin.passDeviceSpecs": ("", "flags: {plugin: {passDeviceSpecs: false}}", "flags"),
    "flags.plugin.deviceListStrategy": (
        "",
        "flags: {plugin: {deviceListStrategy: cdi-cri}}",
        "flags",
    ),
    "flags.plugin.deviceIDStrategy": ("", "flags: {plugin: {deviceIDStrategy: index}}", "flags"),
    "flags.plugin.cdiAnnotationPrefix": (
        "",
        "flags: {plugin: {cdiAnnotationPrefix: x.io/}}",
        "flags",
    ),
    "flags.plugin.nvidiaCTKPath": ("", "flags: {plugin: {nvidiaCTKPath: /x}}", "warnings"),
    "flags.plugin.containerDriverRoot": (
        "",
        "flags: {plugin: {containerDriverRoot: /x}}",
        "flags",
    ),
    "flags.plugin.sharedDevicesAllocationPolicy": (
        "",
        "flags: {plugin: {sharedDevicesAllocationPolicy: packed}}",
        "allocation",
    ),
    "flags.gfd": ("", "flags: {gfd: {}}", "warnings"),
    "flags.gfd.oneshot": ("", "flags: {gfd: {oneshot: true}}", "warnings"),
    "flags.gfd.noTimestamp": ("", "flags: {gfd: {noTimestamp: true}}", "warnings"),
    "flags.gfd.sleepInterval": ("", "flags: {gfd: {sleepInterval: 5}}", "warnings"),
    "flags.gfd.outputFile": ("", "flags: {gfd: {outputFile: x}}", "warnings"),
    "flags.gfd.machineTypeFile": ("", "flags: {gfd: {machineTypeFile: x}}", "warnings"),
    "resources": ("", "resources: {}", "warnings"),
    "resources.gpus": ("", "resources: {gpus: []}", "warnings"),
    "resources.gpus.pattern": ("", "resources: {gpus: [{pattern: x}]}", "refused"),
    "resources.gpus.name": ("", "resources: {gpus: [{name: x}]}", "refused"),
    "resources.mig": ("", "resources: {mig: []}", "warnings"),
    "resources.mig.pattern": ("", "resources: {mig: [{pattern: x}]}", "refused"),
    "resources.mig.name": ("", "resources: {mig: [{name: x}]}", "refused"),
    "imex": ("", "imex: {required: true}", "warnings"),
    "imex.channelIDs": ("", "imex: {channelIDs: [0]}", "refused"),
    "imex.required": ("", "imex: {required: true}", "warnings"),
    "health": ("", "health: {xids: {79: ignore}}", "health"),
    "health.xids": ("", "health: {xids: {79: ignore}}", "health"),
}


def test_every_key_is_here() -> None:
    """The table has each key of the schema, and no other."""
    assert set(EFFECTS) == set(KEYS)


@pytest.mark.parametrize(("before", "after", "what"), EFFECTS.values(), ids=EFFECTS)
def test_effect(loaded: Callable[..., Config], before: str, after: str, what: str) -> None:
    """A key changes just what it is for, or is refused."""
    base = loaded(before)
    if what == "refused":
        with pytest.raises(ConfigInvalidError):
            load("nvidia", after, file="nvidia.yaml")
        return
    changed = loaded(after)
    assert getattr(changed, what) != getattr(base, what)
    same = {name: getattr(base, name) for name in ("source", "digest", what)}
    assert replace(changed, **same) == base


@pytest.mark.parametrize("key", KEYS)
def test_said(key: str) -> None:
    """Each key says what it is for and its default (or that it must be written)."""
    text = KEYS[key].description or ""
    assert len(text) > 20
    if not key.startswith(("flags.plugin", "imex", "resources", "flags.gfd")) and "." in key:
        assert "efault" in text or "must be written" in text.lower()


def test_no_effect_is_said() -> None:
    """Where a key has no effect, its description says so and why."""
    useless = {key: why for key, field in KEYS.items() if (why := extra(field, "x-no-effect"))}
    assert len(useless) == 12
    for key, why in useless.items():
        assert f"No effect here: {why}." in str(KEYS[key].description)
