"""Random damage to a node's files: no other error, no invented device, no harm next door."""

import contextlib
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deviceplugin.backend import BackendUnavailableError
from deviceplugin.events import Scan
from deviceplugin.model import Device
from deviceplugin.simulation.machine import AmdGpu

MakeNode = Callable[..., Any]
MakeGpu = Callable[..., AmdGpu]

MODES = ("SPX/NPS1", "DPX/NPS1", "CPX/NPS4", "")


def _text(path: Path, change: Callable[[bytes], bytes]) -> None:
    if path.is_file():
        path.write_bytes(change(path.read_bytes()))


def _minus_one(content: bytes) -> bytes:
    return b"\n".join(
        b"%s -1" % line.split()[0] if len(line.split()) == 2 else b"-1"
        for line in content.splitlines()
    )


def _shuffled(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(lines[1::2] + lines[::2])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _folder(path: Path) -> None:
    _remove(path)
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], None]] = {
    "remove": _remove,
    "empty": lambda path: _text(path, lambda _: b""),
    "cut": lambda path: _text(path, lambda content: content[: len(content) // 2]),
    "junk": lambda path: _text(path, lambda content: bytes(range(256)) + content),
    "megabyte": lambda path: _text(path, lambda content: content * (2**20 // (len(content) + 1))),
    "crlf": lambda path: _text(path, lambda content: content.replace(b"\n", b"\r\n")),
    "minus one": lambda path: _text(path, _minus_one),
    "shuffle": lambda path: _text(path, _shuffled),
    "digits": lambda path: _text(path, lambda content: content.replace(b"1", b"3")),
    "folder": _folder,
}


def files_of(node: Any, index: int) -> list[Path]:
    """Everything that tells of one GPU alone."""
    gpu = node.tree.gpus[index].gpu
    folders = [node.pci(index).resolve()]
    for entry in (node.root / "sys/devices/platform").glob("amdgpu_xcp*"):
        number = int(entry.name.rpartition("_")[2])
        if number // 7 == index:
            folders.append(entry)
    for entry in node.kfd.iterdir():
        text = (entry / "properties").read_text()
        if f"location_id {int(gpu.pci_address[5:7], 16) << 8}" in text or any(
            f"location_id {(int(gpu.pci_address[5:7], 16) << 8) | part}\n" in text
            for part in range(8)
        ):
            folders.append(entry)
    found = [path for folder in folders for path in sorted(folder.rglob("*"))]
    return [path for path in [*folders, *found] if "links" not in str(path)]


def scan(node: Any) -> Scan:
    """Look; a named state is as good as an empty look."""
    found = Scan()
    with contextlib.suppress(BackendUnavailableError):
        found = node.scan()
    return found


def plain(device: Device) -> Device:
    """What must not change because of somebody else's damage: all but the enumeration."""
    attributes = {k: v for k, v in device.attributes.items() if k != "partitions"}
    return replace(device, index=0, attributes=attributes)


@given(data=st.data())
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_damage_to_one_gpu(
    make_node: MakeNode, make_gpu: MakeGpu, tmp_path: Path, data: st.DataObject
) -> None:
    """Whatever is done to one GPU's files, it is found right or not at all, its neighbours are."""
    shutil.rmtree(tmp_path, ignore_errors=True)
    modes = data.draw(st.lists(st.sampled_from(MODES), min_size=2, max_size=3))
    node = make_node(*(make_gpu(n, mode) for n, mode in enumerate(modes)))
    whole = {device.id: plain(device) for device in scan(node).devices}
    victim = data.draw(st.integers(0, len(modes) - 1))
    address = node.tree.gpus[victim].gpu.pci_address
    paths = files_of(node, victim)
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(paths))
        if path.exists() or path.is_symlink():
            DAMAGE[data.draw(st.sampled_from(sorted(DAMAGE)))](path)
    # The generation rises with each real change; without it modes are not read again.
    (node.tree.kfd / "generation_id").write_text("99\n")
    found = {device.id: plain(device) for device in scan(node).devices}
    others = {key: device for key, device in whole.items() if device.physical != address}
    assert {key: found.get(key) for key in others} == others
    mine = {key: device for key, device in found.items() if key not in others}
    assert all(device.physical == address for device in mine.values()), "invented"
    _own_nodes_only(mine, whole, address)


def _own_nodes_only(mine: dict[Any, Device], whole: dict[Any, Device], address: str) -> None:
    owned = {path for d in whole.values() if d.physical == address for path in d.nodes}
    for device in mine.values():
        assert set(device.nodes) <= owned, "a node of somebody else"
        if device.id in whole:
            assert device.numa_node in (None, whole[device.id].numa_node)
            assert set(device.nodes) <= set(whole[device.id].nodes), "a node of another partition"


@given(data=st.data())
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_damage_anywhere(
    make_node: MakeNode, make_gpu: MakeGpu, tmp_path: Path, data: st.DataObject
) -> None:
    """Damage to anything at all raises nothing, and gives no device node to two devices."""
    shutil.rmtree(tmp_path, ignore_errors=True)
    modes = data.draw(st.lists(st.sampled_from(MODES), min_size=1, max_size=3))
    node = make_node(*(make_gpu(n, mode) for n, mode in enumerate(modes)))
    paths = sorted(node.root.rglob("*"))
    for _ in range(data.draw(st.integers(1, 12))):
        path = data.draw(st.sampled_from(paths))
        if os.path.lexists(path):
            DAMAGE[data.draw(st.sampled_from(sorted(DAMAGE)))](path)
    devices = scan(node).devices
    assert len({device.id for device in devices}) == len(devices)
    renders = [path for device in devices for path in device.nodes if "render" in path]
    assert len(set(renders)) == len(renders)
    assert all(device.numa_node is None or device.numa_node in (0, 1) for device in devices)


def test_a_driver_that_is_unloaded_midway(
    make_node: MakeNode, make_gpu: MakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whichever read the driver goes away, the scan ends in a named state or with less."""
    opened, countdown = os.open, [0]

    def unloading(path: Any, *rest: Any, **more: Any) -> int:
        countdown[0] -= 1
        if countdown[0] == 0:
            current[0].tree.unload()
        return opened(path, *rest, **more)

    current: list[Any] = []
    for reads in range(1, 60, 3):
        node = make_node(make_gpu(0, "DPX/NPS1"), make_gpu(1))
        current[:] = [node]
        whole = {device.id for device in scan(node).devices}
        countdown[0] = reads
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", unloading)
            found = {device.id for device in scan(node).devices}
        assert found <= whole
