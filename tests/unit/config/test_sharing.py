"""The sharing block as rules."""

from collections.abc import Callable

import pytest

from deviceplugin.config.rules import (
    AllDevices,
    Config,
    Devices,
    FirstDevices,
    ListedDevices,
    ShareRule,
)
from deviceplugin.model import Policy

Loaded = Callable[..., Config]


def test_entries(loaded: Loaded) -> None:
    """Entries become rules in the order of the file, each knowing its place."""
    config = loaded(
        "sharing:\n"
        "  timeSlicing:\n"
        "    renameByDefault: true\n"
        "    failRequestsGreaterThanOne: true\n"
        "    resources:\n"
        "    - name: gpu\n"
        "      replicas: 4\n"
        "      devices: [0]\n"
        "    - name: nvidia.com/gpu\n"
        "      replicas: 65536\n"
        "      rename: gpu.many\n"
        "      devices: [1]\n"
    )
    path = "sharing.timeSlicing.resources"
    assert config.rules == (
        ShareRule(
            resource="nvidia.com/gpu",
            replicas=4,
            rename_suffix=".shared",
            devices=ListedDevices(names=("0",)),
            where=f"nvidia.yaml:6 {path}[0]",
        ),
        ShareRule(
            resource="nvidia.com/gpu",
            replicas=65_536,
            rename="nvidia.com/gpu.many",
            devices=ListedDevices(names=("1",)),
            where=f"nvidia.yaml:9 {path}[1]",
        ),
    )
    assert config.allocation.fail_requests_greater_than_one
    assert config.warnings == ()


@pytest.mark.parametrize("replicas", [1, 4, 65_536])
def test_short_form(loaded: Loaded, replicas: int) -> None:
    """Replicas at block level stand for every whole-device resource; one is legal."""
    (rule,) = loaded(f"sharing: {{timeSlicing: {{replicas: {replicas}}}}}").rules
    assert rule.resource is None
    assert rule.replicas == replicas
    assert rule.devices == AllDevices()
    assert rule.where == "nvidia.yaml:1 sharing.timeSlicing.replicas"


def test_short_form_takes_the_suffix(loaded: Loaded) -> None:
    """The short form has renameByDefault too."""
    text = "sharing: {timeSlicing: {replicas: 2, renameByDefault: true}}"
    (rule,) = loaded(text).rules
    assert rule.rename_suffix == ".shared"


@pytest.mark.parametrize(
    ("written", "devices"),
    [
        ("all", AllDevices()),
        ("3", FirstDevices(count=3)),
        ("[0]", ListedDevices(names=("0",))),
        ('["0", 1]', ListedDevices(names=("0", "1"))),
        ("[GPU-5f3c1e9a-0b7d]", ListedDevices(names=("GPU-5f3c1e9a-0b7d",))),
        ('["model:*H100*"]', ListedDevices(names=("model:*H100*",))),
    ],
    ids=["all", "count", "index", "indexes", "UUID", "model"],
)
def test_devices(loaded: Loaded, written: str, devices: Devices) -> None:
    """All, a count, or a list of indexes, UUIDs and models select devices."""
    entries = f"[{{name: gpu, replicas: 2, devices: {written}}}]"
    (rule,) = loaded(f"sharing: {{timeSlicing: {{resources: {entries}}}}}").rules
    assert rule.devices == devices


@pytest.mark.parametrize(
    "entries",
    [
        "[{name: gpu, replicas: 2, devices: [0]}, {name: gpu, replicas: 3, devices: [1]}]",
        "[{name: gpu, replicas: 2, devices: 2}, {name: gpu, replicas: 3, devices: [2]}]",
        "[{name: gpu, replicas: 2, devices: [0]}, {name: gpu, replicas: 3, devices: [GPU-1a]}]",
        "[{name: gpu, replicas: 2, devices: ['model:A*']}, {name: gpu, replicas: 3, devices: [0]}]",
        """[{name: a, replicas: 2, devices: [0], rename: x},
            {name: a, replicas: 3, devices: [1], rename: x}]""",
        "[{name: gpu, replicas: 2}, {name: mig-1g.10gb, replicas: 3}]",
        "[{name: gpu, replicas: 2, rename: nvidia.com/gpu}]",
        "[{name: gpu, replicas: 2, devices: [0, 77, GPU-of-another-node]}]",
    ],
    ids=[
        "lists",
        "count and list",
        "index and UUID",
        "model and index",
        "one rename",
        "two resources",
        "own name",
        "a device that is not here",
    ],
)
def test_legal(loaded: Loaded, entries: str) -> None:
    """What text cannot prove wrong is legal: whether a device is there shows on the node."""
    assert loaded(f"sharing: {{timeSlicing: {{resources: {entries}}}}}").rules


def test_policy(loaded: Loaded) -> None:
    """The allocation policy of the flags reaches the rules of requests."""
    config = loaded("flags: {plugin: {sharedDevicesAllocationPolicy: packed}}")
    assert config.allocation.policy is Policy.PACKED


def test_digest(loaded: Loaded) -> None:
    """Equal texts have equal digests, different ones do not."""
    assert loaded("version: v1").digest == loaded("version: v1").digest
    assert loaded("version: v1").digest != loaded("version: v1 ").digest


def test_vendor_without_a_schema(loaded: Loaded, refused: Callable[..., object]) -> None:
    """A new vendor has version and sharing, with ids of any form."""
    entries = "[{name: acme.com/npu, replicas: 2, devices: ['0000:c1:00.0']}]"
    (rule,) = loaded(f"sharing: {{timeSlicing: {{resources: {entries}}}}}", vendor="acme").rules
    assert rule.resource == "acme.com/npu"
    assert refused("flags: {}", vendor="acme")
    assert loaded("", vendor="acme").flags is None
