"""How near NVIDIA GPUs are: NVLinks before PCIe before NUMA nodes."""

from pathlib import Path
from typing import Any

import pytest

from deviceplugin.model import DeviceId
from deviceplugin.vendors.nvidia.door import SWITCH, Code, GpuInfo
from deviceplugin.vendors.nvidia.links import LinkMap, Place, weight
from deviceplugin.vendors.nvidia.pci import bus

ROOT = ("pci0000:00",)
SWITCHED = (*ROOT, "0000:00:01.0", "0000:01:00.0")


def place(number: int = 0, **known: Any) -> Place:
    """A GPU at an address of its own."""
    return Place(address=f"0000:{number:02x}:00.0", **known)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(
            place(1, nvlinks={"0000:02:00.0": 4}), place(2), 36, id="links-told-by-one-end"
        ),
        pytest.param(
            place(1, nvlinks={SWITCH: 18}),
            place(2, nvlinks={SWITCH: 12}),
            28,
            id="through-switches",
        ),
        pytest.param(
            place(1, nvlinks={SWITCH: 18}, path=ROOT), place(2, path=ROOT), 60, id="one-end-only"
        ),
        pytest.param(place(1, path=SWITCHED), place(2, path=SWITCHED), 50, id="same-bridge"),
        pytest.param(
            place(1, path=SWITCHED), place(2, path=(*ROOT, "0000:00:02.0")), 60, id="same-root"
        ),
        pytest.param(
            place(1, path=ROOT, numa_node=0),
            place(2, path=("pci0000:40",), numa_node=0),
            70,
            id="same-node",
        ),
        pytest.param(
            place(1, path=ROOT, numa_node=0),
            place(2, path=("pci0000:80",), numa_node=1),
            90,
            id="other-node",
        ),
        pytest.param(
            place(1, path=ROOT), place(2, path=("pci0000:80",), numa_node=1), 80, id="node-unknown"
        ),
        pytest.param(place(1, path=ROOT), place(2), None, id="nothing-known"),
    ],
)
def test_weight(one: Place, other: Place, expected: int | None) -> None:
    """The best way between two GPUs counts, whichever of them is asked first."""
    assert weight(one, other) == weight(other, one) == expected


def gpus(count: int) -> list[GpuInfo]:
    """GPUs in a row."""
    return [
        GpuInfo(index=n, uuid=f"GPU-{n}", minor=n, name="NVIDIA", pci_address=f"0000:{n:02x}:00.0")
        for n in range(count)
    ]


def test_asked_once_for_each_set_of_gpus(nvml: Any, tmp_path: Path) -> None:
    """A scan every few seconds costs no call; another GPU or a driver opened anew does."""
    door, links = nvml, LinkMap(bus=bus(tmp_path))
    door.links = {"GPU-0": {"0000:01:00.0": 2}}
    found = links.between(door, gpus(2))
    assert found.weight(DeviceId("GPU-1"), DeviceId("GPU-0")) == 38
    assert links.between(door, gpus(2)) is found
    assert door.asked == ["GPU-0", "GPU-1"]
    links.between(door, gpus(3))
    assert len(door.asked) == 5
    links.forget()
    links.between(door, gpus(3))
    assert len(door.asked) == 8


def test_an_error_of_one_gpu_is_its_own(nvml: Any, tmp_path: Path) -> None:
    """A GPU that cannot be asked has no links of its own; the others keep theirs."""
    door = nvml
    door.links = {"GPU-0": {"0000:02:00.0": 2}, "GPU-1": {"0000:02:00.0": 4}}
    door.errors = {"nvlinks GPU-0": Code.UNKNOWN}
    found = LinkMap(bus=bus(tmp_path)).between(door, gpus(3))
    assert found.weights == {("GPU-1", "GPU-2"): 36}
