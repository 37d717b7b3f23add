"""Which resource a GPU or partition counts under, by strategy."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.config.amd_options import AmdFlags
from deviceplugin.config.rules import ListedDevices
from deviceplugin.model import Device, DeviceId, ResourceName
from deviceplugin.sharing.select import select
from deviceplugin.vendors.amd.partitions import arrange

SINGLE, MIXED = AmdFlags(), AmdFlags(partition_strategy="mixed")


def gpus(*layouts: str) -> list[Device]:
    """GPUs by layout; ``cpx…`` in eight parts, ``dpx…`` in two, others whole."""
    devices = []
    for number, layout in enumerate(layouts):
        address = DeviceId(f"0000:{number:02x}:00.0")
        count = {"cpx": 8, "dpx": 2}.get(layout[:3], 0)
        names = [DeviceId(f"{address}-p{part}") for part in range(count)] or [address]
        devices += [
            Device(
                id=name,
                resource=ResourceName("amd.com/gpu"),
                index=len(devices) + part,
                pci_address=address,
                parent=address if count else None,
                layout=layout,
            )
            for part, name in enumerate(names)
        ]
    return devices


def counts(flags: AmdFlags, devices: Sequence[Device]) -> dict[str, int]:
    """Units that are given out, by resource."""
    arranged = arrange(flags, devices)
    found: dict[str, int] = {}
    for device in arranged.devices:
        if device.id not in arranged.held_back:
            found[device.resource] = found.get(device.resource, 0) + 1
    return found


@pytest.mark.parametrize(
    ("flags", "layouts", "expected"),
    [
        pytest.param(SINGLE, ["spx_nps1"] * 8, {"amd.com/gpu": 8}, id="single-whole"),
        pytest.param(SINGLE, ["cpx_nps4"] * 8, {"amd.com/gpu": 64}, id="single-partitioned"),
        pytest.param(SINGLE, [""] * 8, {"amd.com/gpu": 8}, id="single-no-files"),
        pytest.param(
            SINGLE, ["spx_nps1"] * 5 + ["cpx_nps1"] * 3, {"amd.com/gpu": 5}, id="single-most-whole"
        ),
        pytest.param(
            SINGLE, ["spx_nps1"] * 3 + ["cpx_nps1"] * 5, {"amd.com/gpu": 40}, id="single-most-parts"
        ),
        pytest.param(
            SINGLE, ["spx_nps1"] * 4 + ["cpx_nps1"] * 4, {"amd.com/gpu": 32}, id="single-tie"
        ),
        pytest.param(
            SINGLE, ["", "spx_nps1", "cpx_nps1"], {"amd.com/gpu": 2}, id="single-whole-is-whole"
        ),
        pytest.param(MIXED, [""] * 8, {"amd.com/gpu": 8}, id="mixed-no-files"),
        pytest.param(MIXED, ["spx_nps1"] * 8, {"amd.com/spx_nps1": 8}, id="mixed-whole"),
        pytest.param(MIXED, ["dpx_nps2"] * 2, {"amd.com/dpx_nps2": 4}, id="mixed-halves"),
        pytest.param(
            MIXED,
            ["spx_nps1"] * 5 + ["cpx_nps1"] * 3,
            {"amd.com/spx_nps1": 5, "amd.com/cpx_nps1": 24},
            id="mixed-heterogeneous",
        ),
        pytest.param(
            MIXED, ["", "cpx_nps1"], {"amd.com/gpu": 1, "amd.com/cpx_nps1": 8}, id="mixed-beside"
        ),
        pytest.param(MIXED, ["TPX NPS2!"], {"amd.com/tpx_nps2": 1}, id="mixed-odd-word"),
    ],
)
def test_resources(flags: AmdFlags, layouts: list[str], expected: dict[str, int]) -> None:
    """Each row of the naming table, and what the table has no row for."""
    assert counts(flags, gpus(*layouts)) == expected


def test_what_is_held_back_says_why() -> None:
    """The reason names the counts and what to write instead."""
    arranged = arrange(SINGLE, gpus(*["spx_nps1"] * 5, *["cpx_nps1"] * 3))
    assert len(arranged.held_back) == 24
    (why,) = set(arranged.held_back.values())
    assert "5 of 8 GPUs" in why
    assert "partitionStrategy: mixed" in why


@pytest.mark.parametrize(
    ("name", "count"),
    [("0000:01:00.0", 8), ("0000:01:00.0-p3", 1), ("0000:00:00.0", 1), ("0000:02:00.0", 0)],
    ids=["all-its-partitions", "one-partition", "whole", "not-here"],
)
def test_devices_by_address(name: str, count: int) -> None:
    """An address means the whole GPU, or all of its partitions."""
    picked = select(ListedDevices(names=(name,)), gpus("spx_nps1", "cpx_nps1"))
    assert len(picked.devices) == count
    assert bool(picked.absent) == (count == 0)


@given(
    layouts=st.lists(st.sampled_from(["", "spx_nps1", "dpx_nps1", "cpx_nps1", "cpx_nps4"])),
    mixed=st.booleans(),
)
def test_nothing_is_lost_or_doubled(layouts: list[str], mixed: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
    """Every device comes back once, whatever the node looks like; something is always served."""
    devices = gpus(*layouts)
    arranged = arrange(MIXED if mixed else SINGLE, devices)
    assert [device.id for device in arranged.devices] == [device.id for device in devices]
    assert set(arranged.held_back) < {device.id for device in devices} or not devices
