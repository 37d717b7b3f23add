"""A GPU that is divided otherwise while pods hold it as it was."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deviceplugin import events as ev
from deviceplugin import state
from deviceplugin.config.rules import Config, HealthPolicy
from deviceplugin.faults import Faults, against
from deviceplugin.inventory import Known
from deviceplugin.model import Action, Arrangement, Device, DeviceId, ResourceName
from deviceplugin.sharing.engine import Outcome

GPU = "nvidia.com/gpu"


def parts(whole: Device, count: int, layout: str = "") -> list[Device]:
    """Divide a GPU."""
    return [
        replace(
            whole,
            id=DeviceId(f"{whole.id}-p{number}"),
            parent=whole.id,
            layout=layout or f"in-{count}",
        )
        for number in range(count)
    ]


def by_layout(_config: Config, devices: Sequence[Device]) -> Arrangement:
    """Name each device's resource after how its GPU is divided."""
    return Arrangement(
        devices=tuple(
            replace(each, resource=ResourceName(f"nvidia.com/{each.layout or 'gpu'}"))
            for each in devices
        )
    )


def test_a_free_gpu_changes_its_units_on_the_open_stream(node: Any) -> None:
    """The whole unit turns Unhealthy at once, the parts come with the next answer."""
    (whole,) = node.devices
    node.scan(*parts(whole, 2))
    assert node.healthy() == []
    assert "divided otherwise" in node.reasons()["GPU-0"]
    node.answer()
    assert node.healthy() == ["GPU-0-p0", "GPU-0-p1"]
    node.tick(31.0).answer(3)
    assert node.listed() == ["GPU-0-p0", "GPU-0-p1"]


def test_parts_wait_for_the_pod_that_holds_the_whole(node: Any) -> None:
    """What a pod holds stays listed, and its GPU is given to nobody else meanwhile."""
    (whole,) = node.devices
    node.allocate("GPU-0").scan(*parts(whole, 2)).answer(5)
    assert node.healthy() == []
    assert "a pod holds it" in node.reasons()["GPU-0"]
    assert "pods hold the device as GPU-0" in str(node.outcome.unmet)
    node.end("GPU-0").answer(3)
    assert node.healthy() == ["GPU-0-p0", "GPU-0-p1"]


def test_the_whole_waits_for_one_held_part(node: Any) -> None:
    """Made whole again, a GPU is given out when its last part is free."""
    (whole,) = node.devices
    node.scan(*parts(whole, 3)).answer().allocate("GPU-0-p2").scan(whole).answer(5)
    assert node.healthy() == []
    assert set(node.listed()) >= {"GPU-0", "GPU-0-p2"}
    node.end("GPU-0-p2").answer(3)
    assert node.healthy() == ["GPU-0"]


def test_the_other_gpu_is_not_touched(new_node: Callable[..., Any]) -> None:
    """Only the units of the GPU that was divided change."""
    node = new_node(gpus=2).answer()
    first, second = node.devices
    node.allocate("GPU-1").scan(*parts(first, 2), second)
    assert "GPU-1" in node.healthy()
    node.answer()
    assert node.healthy() == ["GPU-0-p0", "GPU-0-p1", "GPU-1"]


def test_units_move_between_resources(new_node: Callable[..., Any]) -> None:
    """Where each layout has a name, the old name's list goes empty and its stream stays."""
    node = new_node(gpus=1, arrange=by_layout).answer()
    (whole,) = node.devices
    node.scan(*parts(whole, 2)).answer()
    assert node.healthy() == []
    assert node.healthy("nvidia.com/in-2") == ["GPU-0-p0", "GPU-0-p1"]
    node.tick(31.0).answer(3)
    assert node.listed() == []
    assert GPU in node.views


def test_same_ids_under_another_layout_move_by_name(new_node: Callable[..., Any]) -> None:
    """Part 1 of four and of two is one id, and one device node: it alone waits for its pod."""
    node = new_node(gpus=1, arrange=by_layout).answer()
    (whole,) = node.devices
    node.scan(*parts(whole, 4)).answer().allocate("GPU-0-p1", "nvidia.com/in-4")
    node.scan(*parts(whole, 2)).answer(3)
    assert node.healthy("nvidia.com/in-2") == ["GPU-0-p0"]
    node.end("GPU-0-p1", "nvidia.com/in-4").answer(3)
    assert node.healthy("nvidia.com/in-2") == ["GPU-0-p0", "GPU-0-p1"]
    assert node.healthy("nvidia.com/in-4") == []


def test_a_part_that_is_not_found_is_missing(node: Any) -> None:
    """One of the parts vanishing under the same layout is a loss, not a change."""
    (whole,) = node.devices
    both = parts(whole, 2)
    node.scan(*both).answer().tick(31.0).answer(3).scan(both[0])
    assert node.healthy() == ["GPU-0-p0"]
    assert node.reasons()["GPU-0-p1"].startswith("missing")


def test_what_a_gpu_was_survives_a_restart(node: Any) -> None:
    """A daemon that is restarted meanwhile still waits for the pod that holds the whole."""
    (whole,) = node.devices
    node.allocate("GPU-0").scan(*parts(whole, 2))
    config = node.inventory.config
    kept = state.snapshot(node.inventory, node.outcome.listing, "text", state.Identity())
    node.inventory, listing = state.restore(kept, now=node.now)
    node.outcome = Outcome(listing=listing)
    node.fold(ev.ConfigAccepted(config=config, text="text", at=node.now))
    node.scan(*parts(whole, 2)).answer(3)
    assert node.healthy() == []
    node.end("GPU-0").answer(3)
    assert node.healthy() == ["GPU-0-p0", "GPU-0-p1"]


def test_divided_while_we_were_away(node: Any) -> None:
    """The state knows the GPU whole, the first scan after a restart shows parts of it."""
    (whole,) = node.devices
    node.allocate("GPU-0")
    config = node.inventory.config
    kept = state.snapshot(node.inventory, node.outcome.listing, "text", state.Identity())
    node.inventory, listing = state.restore(kept, now=node.now)
    node.outcome = Outcome(listing=listing)
    node.fold(ev.ConfigAccepted(config=config, text="text", at=node.now))
    node.scan(*parts(whole, 2)).answer(3)
    assert node.healthy() == []
    assert "a pod holds it" in node.reasons()["GPU-0"]


def test_a_fault_of_the_gpu_is_one_of_all_its_parts(new_node: Callable[..., Any]) -> None:
    """A symptom of the GPU reaches its parts and their shares, found or not, and nobody else."""
    node = new_node(gpus=2).answer()
    first, second = node.devices
    both = parts(first, 2)
    node.share(2).scan(*both, second).answer(2).tick(31.0).answer(3)
    bad = ev.Symptom(device=first.id, kind="ras", detail="umc", action=Action.RESET, at=node.now)
    node.fold(bad).scan(both[0], second)
    assert node.healthy() == ["GPU-1::0", "GPU-1::1"]
    assert set(node.reasons().values()) == {"ras: umc"}
    node.fold(ev.WasReset(device=first.id, at=node.now + 1)).scan(*both, second)
    assert len(node.healthy()) == 6


@pytest.mark.parametrize(
    ("own", "parent"), [(Action.RECOVER, Action.REBOOT), (Action.REBOOT, Action.RECOVER)]
)
def test_the_worse_fault_is_told(
    device: Callable[..., Device], own: Action, parent: Action
) -> None:
    """A part's own fault gives way to a worse one of its GPU, and the other way round."""
    part = parts(device(0), 2)[0]
    faults = Faults()
    for of, action in ((part.id, own), (DeviceId("GPU-0"), parent)):
        seen = ev.Symptom(device=of, kind=str(action), detail="", action=action, at=1.0)
        faults = faults.raised(seen)
    found = against(part, faults.verdict(HealthPolicy()))
    assert found is not None
    assert found.kind == "reboot"


def test_held_back_devices_stay_listed_with_the_reason(new_node: Callable[..., Any]) -> None:
    """A device that the strategy holds back is Unhealthy, allocatable by id, and told as unmet."""

    def arrange(_config: Config, devices: Sequence[Device]) -> Arrangement:
        return Arrangement(
            devices=tuple(devices), held_back={DeviceId("GPU-1"): "one kind is served"}
        )

    node = new_node(gpus=2, arrange=arrange).answer()
    assert node.healthy() == ["GPU-0"]
    assert node.reasons() == {"GPU-1": "held back: one kind is served"}
    assert [str(line) for line in node.outcome.unmet] == [
        f"{GPU}: GPU-1 held back: one kind is served"
    ]


@pytest.mark.parametrize("boots", [0, 1], ids=["same boot", "later boot"])
def test_a_layout_that_is_not_known_yet_replaces_nothing(
    bare_node: Callable[..., Any], device: Callable[..., Device], boots: int
) -> None:
    """A GPU that no scan shows keeps the parts it was known with, at most as missing."""
    node = bare_node().config()
    known = Known(device=parts(device(0), 2)[0], boot="boot-0" if boots else "boot-1")
    node.inventory = replace(node.inventory, known={known.device.id: known})
    node.scan(device(1), bus=["0000:00:00.0", "0000:01:00.0"])
    assert node.inventory.former == {}
    assert known.device.id in node.inventory.known
