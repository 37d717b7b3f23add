"""The rules of draining, one scenario each."""

from collections.abc import Callable
from typing import Any

import pytest

from deviceplugin import events as ev

GPU = "nvidia.com/gpu"
NEW = "nvidia.com/gpu.shared"


def test_whole_device_lists_its_plain_id(node: Any) -> None:
    """Without sharing the kubelet counts the device itself."""
    assert node.healthy() == ["GPU-0"]
    assert node.listed() == ["GPU-0"]


def test_free_whole_device_becomes_shares_in_one_list(node: Any) -> None:
    """An unheld device turns Unhealthy and all its shares Healthy in the same message."""
    node.share(3)
    assert node.healthy() == ["GPU-0::0", "GPU-0::1", "GPU-0::2"]
    assert node.listed()[0] == "GPU-0"


def test_held_whole_device_stays_as_one_of_the_shares(node: Any) -> None:
    """A pod's whole device is one unit of the target until the pod ends; then share 0 comes."""
    node.allocate("GPU-0").answer().share(3)
    assert node.healthy() == ["GPU-0", "GPU-0::1", "GPU-0::2"]
    assert node.listed() == ["GPU-0", "GPU-0::1", "GPU-0::2"]
    node.end("GPU-0").answer()
    assert node.healthy() == ["GPU-0::0", "GPU-0::1", "GPU-0::2"]
    assert node.reasons()["GPU-0"].startswith("withdrawn")


def test_whole_device_that_may_be_held_counts_as_held(new_node: Callable[..., Any]) -> None:
    """While PodResources is silent a whole device becomes one of its shares, held or not."""
    node = new_node().share(2)
    assert node.healthy() == ["GPU-0", "GPU-0::1"]


def test_lowest_held_share_is_the_whole_device_until_free(node: Any) -> None:
    """Shares go back to a whole device only when no share is held."""
    node.share(4).allocate("GPU-0::2").allocate("GPU-0::3").answer().share(1)
    assert node.healthy() == ["GPU-0::2"]
    node.end("GPU-0::2").answer()
    assert node.healthy() == ["GPU-0::3"]
    node.end("GPU-0::3").answer()
    assert node.healthy() == ["GPU-0"]


def test_late_share_takes_the_whole_device_back(node: Any) -> None:
    """A share allocated just after its withdrawal stands for the whole device at once."""
    node.share(2).share(1)
    assert node.healthy() == ["GPU-0"]
    node.allocate("GPU-0::1")
    assert node.healthy() == ["GPU-0::1"]
    assert node.reasons()["GPU-0"].startswith("withdrawn")


def test_shrink_keeps_held_units_then_the_lowest(node: Any) -> None:
    """Survivors of a shrink are the held ids first, then the lowest numbers."""
    node.share(4).allocate("GPU-0::3").answer().share(2)
    assert node.healthy() == ["GPU-0::0", "GPU-0::3"]
    assert node.reasons() == {
        "GPU-0": node.reasons()["GPU-0"],
        "GPU-0::1": "withdrawn: the config leaves it out",
        "GPU-0::2": "withdrawn: the config leaves it out",
    }


def test_shrink_below_what_is_held_drains(node: Any) -> None:
    """Held units beyond the target are listed Unhealthy as draining, and no free one is Healthy."""
    node.share(3)
    for unit in ("GPU-0::0", "GPU-0::1", "GPU-0::2"):
        node.allocate(unit)
    node.share(2)
    assert node.healthy() == ["GPU-0::0", "GPU-0::1"]
    assert node.reasons()["GPU-0::2"] == "draining: the config leaves it out; a pod holds it"
    assert node.outcome.draining


def test_grow_never_dips(node: Any) -> None:
    """A grow keeps each Healthy unit and adds the missing ones in one message."""
    node.share(2).allocate("GPU-0::1").share(4)
    assert node.healthy() == ["GPU-0::0", "GPU-0::1", "GPU-0::2", "GPU-0::3"]


def test_withdrawn_unit_leaves_after_its_wait_and_three_answers(node: Any) -> None:
    """Neither the wait nor the answers alone let an id leave the list."""
    node.share(2).share(1)
    node.tick(29.0).answer(1, every=0.1)
    assert "GPU-0::1" in node.listed()
    node.tick(2.0).answer(1, every=0.1)
    assert "GPU-0::1" in node.listed()
    node.answer(1, every=0.1)
    assert node.listed() == ["GPU-0"]


def test_answers_alone_do_not_withdraw(node: Any) -> None:
    """Many quick answers do not shorten the wait of a withdrawn unit."""
    node.share(2).share(1).answer(10, every=0.5)
    assert node.listed() == ["GPU-0", "GPU-0::0", "GPU-0::1"]


def test_held_unit_never_leaves(node: Any) -> None:
    """A pod that runs for a day keeps its withdrawn unit listed for a day."""
    node.share(2).allocate("GPU-0::1").answer().share(1).allocate("GPU-0::0")
    node.tick(86400.0).answer(5)
    assert set(node.listed()) == {"GPU-0::0", "GPU-0::1"}


def test_nothing_leaves_while_holders_are_unknown(node: Any) -> None:
    """Without PodResources a withdrawn unit stays, and says why."""
    node.share(2).share(1).silent().tick(86400.0)
    assert node.reasons()["GPU-0::1"] == "holders unknown: the config leaves it out"
    node.answer(3)
    assert node.listed() == ["GPU-0"]


def test_shrink_while_holders_are_unknown_keeps_the_lowest(node: Any) -> None:
    """With nobody to ask, units known to be held survive first, then the lowest Healthy ones."""
    node.share(4).allocate("GPU-0::3").silent().share(2)
    assert node.healthy() == ["GPU-0::0", "GPU-0::3"]
    node.share(1)
    assert node.healthy() == ["GPU-0::3"]


def test_grow_while_holders_are_unknown(new_node: Callable[..., Any]) -> None:
    """A grow needs nobody's answer."""
    node = new_node(gpus=0)
    node.share(2).scan(*new_node(gpus=1).devices)
    node.share(4)
    assert node.healthy() == ["GPU-0::0", "GPU-0::1", "GPU-0::2", "GPU-0::3"]


class TestRename:
    """A new name takes a device over only when its old name has let go."""

    def test_waits_for_an_answer_asked_for_later(self, node: Any) -> None:
        """Old name Unhealthy, then an answer begun after that, then the new name Healthy."""
        node.share(2).answer()
        stale = node.answered(begun=node.now)
        node.share(2, NEW)
        assert node.outcome.ask_holders
        assert node.healthy() == []
        assert node.listed(NEW) == []
        assert [unmet.resource for unmet in node.outcome.unmet] == [NEW]
        node.now += 0.1
        node.fold(stale)
        assert node.healthy(NEW) == []
        node.answer()
        assert node.healthy(NEW) == ["GPU-0::0", "GPU-0::1"]
        assert node.outcome.unmet == ()

    def test_is_per_device(self, new_node: Callable[..., Any]) -> None:
        """A held GPU keeps its old name while its neighbour moves."""
        node = new_node(gpus=2).answer().allocate("GPU-1").answer().share(1, NEW).answer()
        assert node.healthy(NEW) == ["GPU-0"]
        assert node.reasons()["GPU-1"].startswith("draining")
        assert "GPU-1 must wait: pods hold the device" in str(node.outcome.unmet[0])
        node.end("GPU-1").answer()
        assert node.healthy(NEW) == ["GPU-0", "GPU-1"]

    def test_late_allocate_under_the_old_name_closes_the_new_one(self, node: Any) -> None:
        """Units of a device under its new name turn Unhealthy as soon as the old name is used."""
        node.share(2).answer().share(2, NEW).answer().allocate("GPU-0::0")
        assert node.healthy(NEW) == []
        assert node.healthy() == []
        assert set(node.reasons(NEW)) == {"GPU-0::0", "GPU-0::1"}
        node.end("GPU-0::0").answer(2)
        assert node.healthy(NEW) == []
        node.answer()
        assert node.healthy(NEW) == ["GPU-0::0", "GPU-0::1"]

    def test_waits_while_holders_are_unknown(self, node: Any) -> None:
        """Nothing counts as free without PodResources, so a rename waits and says so."""
        node.silent().share(1, NEW).tick(3600.0)
        assert node.healthy(NEW) == []
        assert "holders unknown" in node.outcome.unmet[0].reason
        assert node.reasons()["GPU-0"].startswith("holders unknown")

    def test_that_was_done_survives_silence(self, node: Any) -> None:
        """A device that moved stays moved when PodResources falls silent."""
        node.share(2, NEW).answer().silent()
        assert node.healthy(NEW) == ["GPU-0::0", "GPU-0::1"]

    def test_back_before_it_happened_is_at_once(self, node: Any) -> None:
        """An edit taken back while the new name waits needs no answer."""
        node.share(2).answer().share(2, NEW)
        node.share(2)
        assert node.healthy() == ["GPU-0::0", "GPU-0::1"]
        assert NEW not in node.views

    def test_ends_with_an_empty_old_name(self, node: Any) -> None:
        """A name that lost all its units keeps its place, with the empty list."""
        node.share(1, NEW).answer().tick(31.0).answer(3)
        assert node.listed() == []
        assert GPU in node.views
        assert node.healthy(NEW) == ["GPU-0"]
        assert not node.outcome.draining

    def test_sees_pods_of_a_default_name_that_is_not_listed(
        self, new_node: Callable[..., Any]
    ) -> None:
        """A GPU that pods of a predecessor hold under its plain name is not given out twice."""
        node = new_node(gpus=0).share(2, NEW)
        node.pods = {GPU: {"GPU-0"}}
        node.answer().scan(*new_node(gpus=2).devices)
        assert node.healthy(NEW) == ["GPU-1::0", "GPU-1::1"]
        assert GPU not in node.views


class TestNotFound:
    """What is not found stays listed, unhealthy, until it is proven gone."""

    def test_missing_device_stays_listed(self, new_node: Callable[..., Any]) -> None:
        """A device that falls off keeps its units, Unhealthy with the reason, for ever."""
        node = new_node(gpus=2).answer()
        node.scan(node.devices[0], bus=["0000:00:00.0"])
        node.tick(3600.0).answer(5)
        assert node.listed() == ["GPU-0", "GPU-1"]
        assert node.reasons() == {"GPU-1": "missing: the device is not found"}

    def test_reason_tells_what_the_bus_shows(self, new_node: Callable[..., Any]) -> None:
        """A device that only its driver lost is said to be on the bus."""
        node = new_node(gpus=2)
        node.scan(node.devices[0], bus=["0000:00:00.0", "0000:01:00.0"])
        assert node.reasons()["GPU-1"] == (
            "missing: the PCI bus shows the device, its driver does not"
        )

    def test_missing_device_keeps_its_list_over_edits(self, new_node: Callable[..., Any]) -> None:
        """A config edit reaches a missing device when it is back."""
        node = new_node(gpus=2).answer()
        both = node.devices
        node.scan(both[0]).share(2).tick(60).answer(4)
        assert node.listed() == ["GPU-0::0", "GPU-0::1", "GPU-1"]
        node.scan(*both)
        assert node.healthy() == ["GPU-0::0", "GPU-0::1", "GPU-1::0", "GPU-1::1"]

    def test_later_boot_without_it_lets_it_go(
        self, bare_node: Callable[..., Any], new_node: Callable[..., Any]
    ) -> None:
        """In a later boot, when the PCI bus lacks it too, a device is withdrawn and leaves."""
        before = new_node(gpus=2).answer()
        after = bare_node(outcome=before.outcome)
        known = before.inventory.known
        after.inventory = type(before.inventory)(boot="boot-2", known=known)
        after.config()
        assert set(after.reasons()) == {"GPU-0", "GPU-1"}
        after.scan(before.devices[0], bus=["0000:00:00.0", "0000:01:00.0"])
        assert set(after.reasons()) == {"GPU-1"}
        after.scan(before.devices[0]).answer()
        assert after.reasons()["GPU-1"].startswith("withdrawn: no device of this node")
        after.tick(31.0).answer(3)
        assert after.listed() == ["GPU-0"]

    def test_foreign_held_unit_is_listed_until_released(self, node: Any) -> None:
        """A unit under our name that a predecessor gave out is listed Unhealthy while held."""
        node.pods = {GPU: {"GPU-old::7"}}
        node.answer()
        assert node.listed() == ["GPU-0", "GPU-old::7"]
        assert node.reasons()["GPU-old::7"].startswith("draining: no device of this node")
        node.end("GPU-old::7").answer().tick(31.0).answer(3)
        assert node.listed() == ["GPU-0"]

    def test_foreign_name_is_left_alone(self, node: Any) -> None:
        """Units under a name that is not ours are not listed."""
        node.pods = {"other.example/thing": {"GPU-0"}}
        node.answer()
        assert list(node.views) == [GPU]
        assert node.healthy() == ["GPU-0"]

    def test_a_device_held_under_a_forgotten_name_is_not_given_out_again(self, node: Any) -> None:
        """With the state lost, the pods of a rename still hold their GPU until they end."""
        node.pods = {"nvidia.com/gpu.shared": {"GPU-0::0"}}
        node.answer()
        assert node.healthy() == []
        assert "pods hold the device as nvidia.com/gpu.shared" in str(node.outcome.unmet[0])
        assert list(node.views) == [GPU]
        node.end("GPU-0::0", "nvidia.com/gpu.shared").answer()
        assert node.healthy() == ["GPU-0"]


class TestKubeletRestart:
    """A starting kubelet lists pods late; what was held stays held for a while."""

    def restarted(self, node: Any) -> Any:
        """Restart the kubelet, with its pods not listed yet."""
        event = ev.KubeletChanged(state="restarted", detail="new socket", at=node.now)
        return node.fold(event)

    def test_held_unit_survives_an_empty_answer(self, node: Any) -> None:
        """Answers of a fresh kubelet that lack a held unit do not free it for ten minutes."""
        node.share(2).allocate("GPU-0::1").answer().share(1)
        pods, node.pods = node.pods, {}
        self.restarted(node).answer(5).tick(60).answer(5)
        assert node.healthy() == ["GPU-0::1"]
        node.pods = pods
        node.answer().tick(600).answer(4)
        assert node.healthy() == ["GPU-0::1"]

    def test_hold_lapses_after_ten_minutes(self, node: Any) -> None:
        """A unit that the new kubelet never lists is free when its time is over."""
        node.share(2).allocate("GPU-0::1").answer().share(1)
        node.pods = {}
        self.restarted(node).answer()
        assert node.outcome.wake_at is not None
        node.tick(601.0)
        assert node.healthy() == ["GPU-0"]

    def test_listed_then_dropped_is_free_at_once(self, node: Any) -> None:
        """Once the new kubelet has listed a unit its word counts."""
        node.share(2).allocate("GPU-0::1").answer().share(1)
        self.restarted(node).answer().end("GPU-0::1").answer()
        assert node.healthy() == ["GPU-0"]

    @pytest.mark.parametrize(
        ("states", "healthy"),
        [
            pytest.param(["restarted"], "GPU-0::1", id="restarted"),
            pytest.param(["absent", "present"], "GPU-0::1", id="came-back"),
            pytest.param(["present"], "GPU-0::1", id="first-seen"),
        ],
    )
    def test_what_counts_as_a_restart(self, node: Any, states: list[str], healthy: str) -> None:
        """A kubelet that was away may be another one."""
        node.share(2).allocate("GPU-0::1").answer().share(1)
        for state in states:
            node.fold(ev.KubeletChanged(state=state, detail="", at=node.now))
        node.pods = {}
        node.answer(4)
        assert node.healthy() == [healthy]


def test_equal_moments_give_equal_lists(node: Any) -> None:
    """Planning twice changes nothing, so nothing is sent twice."""
    node.share(3).allocate("GPU-0::2").share(2)
    before = node.outcome
    node.plan()
    assert node.outcome.views == before.views
    assert node.outcome.listing == before.listing
