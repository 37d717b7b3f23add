"""What is taken, and warned of."""

from collections.abc import Callable

import pytest

from deviceplugin.config.rules import Config

Loaded = Callable[..., Config]

NO_EFFECT = {
    "failOnInitError": ("flags: {failOnInitError: false}", "a missing driver is waited for"),
    "failOnInitError default": ("flags: {failOnInitError: true}", "a missing driver is waited"),
    "gdrcopyEnabled": ("flags: {gdrcopyEnabled: false}", "false is the only value"),
    "gdsEnabled": ("flags: {gdsEnabled: false}", "false is the only value"),
    "mofedEnabled": ("flags: {mofedEnabled: false}", "false is the only value"),
    "useNodeFeatureAPI": ("flags: {useNodeFeatureAPI: true}", "no node labels"),
    "deviceDiscoveryStrategy": ("flags: {deviceDiscoveryStrategy: nvml}", "through NVML"),
    "mpsRoot": ("flags: {mpsRoot: /run/nvidia/mps}", "MPS sharing is not supported yet"),
    "nvidiaCTKPath": ("flags: {plugin: {nvidiaCTKPath: /usr/bin/x}}", "none is generated"),
    "gfd": ("flags: {gfd: {oneshot: true, noTimestamp: true, sleepInterval: 5s}}", "node labels"),
    "resources": ("resources: {gpus: [{pattern: 'A100*', name: gpu}], mig: []}", "use rename"),
    "channelIDs": ("imex: {channelIDs: []}", "no IMEX channel"),
    "required": ("imex: {required: true}", "no IMEX channel"),
}


@pytest.mark.parametrize(("text", "why"), NO_EFFECT.values(), ids=NO_EFFECT)
def test_no_effect(loaded: Loaded, text: str, why: str) -> None:
    """A key without effect here is taken with exactly one warning that says why."""
    config = loaded(text)
    (warning,) = config.warnings
    assert warning.startswith("nvidia.yaml:1: ")
    assert "has no effect here" in warning
    assert why in warning


@pytest.mark.parametrize("text", ["flags: {gfd: , mpsRoot: null}", "resources:\n", "imex: ~"])
def test_key_without_value(loaded: Loaded, text: str) -> None:
    """A key without a value says nothing and is not warned of."""
    assert loaded(text).warnings == ()


def test_case(loaded: Loaded) -> None:
    """Keys right but for their case are taken, as the incumbent does, each with a warning."""
    config = loaded("Sharing:\n  timeslicing:\n    Replicas: 4\n")
    assert config.rules[0].replicas == 4
    assert config.rules[0].where == "nvidia.yaml:3 sharing.timeSlicing.replicas"
    assert config.warnings == (
        "nvidia.yaml:1: Sharing taken as sharing: write it so",
        "nvidia.yaml:2: sharing.timeslicing taken as timeSlicing: write it so",
        "nvidia.yaml:3: sharing.timeSlicing.Replicas taken as replicas: write it so",
    )


def test_case_does_not_excuse_values(refused: Callable[..., object]) -> None:
    """A value of a key in the wrong case is checked all the same."""
    assert refused("FLAGS: {MIGSTRATEGY: mixed}")
