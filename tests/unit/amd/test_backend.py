"""What the AMD vendor says of a node, once for each change."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.config.load import load
from deviceplugin.simulation.amd_driver import SimulatedAmd
from deviceplugin.vendors.amd.amd_backend import AmdBackend
from deviceplugin.vendors.amd.health import Health

MakeBackend = Callable[..., AmdBackend]


@pytest.fixture
def make(make_node: Callable[..., Any]) -> Callable[..., tuple[AmdBackend, Any]]:
    """Make a backend over GPUs, and its node."""

    def made(*gpus: Any) -> tuple[AmdBackend, Any]:
        node = make_node(*gpus)
        door = SimulatedAmd(node.machine, node.tree)
        return AmdBackend(options=node.look.options, door=door, health=Health()), node

    return made


def test_the_group_of_render_nodes_is_told_once(
    make: Callable[..., Any], make_gpu: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Who runs pods without root needs the number, and no line for each scan."""
    backend, node = make(make_gpu(0), make_gpu(1))
    os.chown(node.root / "dev/dri/renderD128", 0, 44)
    with caplog.at_level(logging.INFO):
        backend.discover()
        backend.discover()
    said = [record for record in caplog.records if "supplementalGroups" in record.message]
    assert [vars(record)["gid"] for record in said] == ["44"]


def test_hidden_nodes_are_told_once(
    make: Callable[..., Any],
    make_gpu: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod without access to the GPUs says what it lacks, and names the remedy."""
    backend, _ = make(make_gpu(0))
    opened = os.open

    def denied(path: Any, *rest: Any, **more: Any) -> int:
        if Path(path).name == "properties" and Path(path).parent.name == "2":
            raise PermissionError(1, "Operation not permitted", str(path))
        return opened(path, *rest, **more)

    monkeypatch.setattr(os, "open", denied)
    with caplog.at_level(logging.INFO):
        assert len(backend.discover().devices) == 1
        backend.discover()
    assert len([r for r in caplog.records if "amd-partitions" in r.message]) == 1


def test_the_config_reaches_strategy_delivery_and_health(
    make: Callable[..., Any], make_gpu: Callable[..., Any]
) -> None:
    """Flags of a config count in each part of the vendor; another vendor's are its defaults."""
    backend, _ = make(make_gpu(0), make_gpu(1, "CPX/NPS1"))
    text = "flags: {partitionStrategy: mixed, plugin: {addressesEnv: true}}\nhealth: {amdsmi: true}"
    config = load("amd", text, file="amd.yaml")
    devices = backend.discover().devices
    names = {device.resource for device in backend.arrange(config, devices).devices}
    assert names == {"amd.com/spx_nps1", "amd.com/cpx_nps1"}
    edits = backend.delivery(config, devices[0].resource, devices).edits(devices[:1])
    assert edits.env == {"PCIDEVICE_AMD_COM_GPU": "0000:05:00.0"}
    backend.configure(config)
    assert backend.health.flags.amdsmi
    backend.configure(load("nvidia", "", file="nvidia.yaml"))
    assert not backend.health.flags.amdsmi
