"""What holds for a list whatever configs, pods, answers and restarts come in whatever order."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deviceplugin import events as ev
from deviceplugin import state
from deviceplugin.config.rules import FirstDevices, ShareRule
from deviceplugin.inventory import apply
from deviceplugin.model import Device, DeviceId, ResourceName
from deviceplugin.sharing.engine import Outcome
from deviceplugin.sharing.ids import slot_of

NAMES = ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/slice")
GPUS = 2

_rule = st.tuples(
    st.sampled_from([1, 1, 2, 3, 5]),
    st.sampled_from([None, *NAMES[1:]]),
    st.sampled_from([1, GPUS]),
)
_draw = st.integers(0, 10_000)

OPS = st.lists(
    st.one_of(
        st.tuples(st.just("config"), _rule),
        st.tuples(st.just("start"), _draw),
        st.tuples(st.just("start"), _draw),
        st.tuples(st.just("late"), _draw),
        st.tuples(st.just("end"), _draw),
        st.tuples(st.just("ask"), _draw),
        st.tuples(st.just("answer"), _draw),
        st.tuples(st.just("answer"), _draw),
        st.tuples(st.just("silent"), _draw),
        st.tuples(st.just("tick"), st.sampled_from([0.01, 1.0, 31.0])),
        st.tuples(st.just("kubelet"), st.integers(0, 4)),
        st.tuples(st.just("settle"), _draw),
        st.tuples(st.just("process"), _draw),
        st.tuples(st.just("both"), st.integers(0, 4)),
        st.tuples(st.just("unplug"), _draw),
        st.tuples(st.just("plug"), _draw),
        st.tuples(st.just("divide"), _draw),
    ),
    max_size=40,
)


class World:
    """A node, and a kubelet that chooses units by the lists it got, sometimes a list too late."""

    def __init__(self, node: Any) -> None:
        """Begin with whole GPUs and an answer."""
        self.node = node
        self.gpus = self.whole = node.devices
        self.asked: list[ev.HoldersAnswered] = []
        self.stale = node.views
        self.held: set[tuple[str, str]] = set()
        self.lags: dict[tuple[str, str], int] = {}
        self.kubelets = 0
        self._see("present")
        node.answer()

    def run(self, op: str, argument: Any) -> None:
        """Do one thing that may happen, then look at the list."""
        self.node.now += 0.01
        before = self.node.views
        getattr(self, op)(argument)
        self.stale = before
        self.check()

    def config(self, rule: tuple[int, str | None, int]) -> None:
        """The user edits the config; a pure grow must not dip."""
        replicas, rename, count = rule
        before = self._counts()
        targets = dict(self.node.outcome.listing.targets)
        name = ResourceName(rename) if rename else None
        self.node.config(
            ShareRule(
                resource=ResourceName(NAMES[0]),
                replicas=replicas,
                rename=name,
                devices=FirstDevices(count=count),
                where="rule",
            )
        )
        after = self._counts()
        for device, target in self.node.outcome.listing.targets.items():
            was = targets.get(device)
            if was and was.resource == target.resource and was.replicas <= target.replicas:
                assert after[target.resource, device] >= before[target.resource, device]

    def start(self, draw: int) -> None:
        """The kubelet gives a free unit of the newest list to a pod."""
        self._give(self.node.views, draw)

    def late(self, draw: int) -> None:
        """The kubelet chose before the newest list reached it."""
        self._give(self.stale, draw)

    def _give(self, views: Any, draw: int) -> None:
        free = sorted(
            (name, unit.id)
            for name, view in views.items()
            for unit in view.units
            if unit.healthy and (name, unit.id) not in self.held
        )
        if free:
            name, unit = free[draw % len(free)]
            self.held.add((name, unit))
            self.lags[name, unit] = draw % 3
            self.node.allocate(unit, name)

    def end(self, draw: int) -> None:
        """A pod ends."""
        held = sorted(self.held)
        if held:
            self.held.discard(held[draw % len(held)])

    def ask(self, _draw: int) -> None:
        """A question goes out; its answer comes later, or never."""
        self.asked.append(self._answered())

    def _answered(self) -> ev.HoldersAnswered:
        """What the kubelet says now: pods that were just admitted are not in it yet."""
        self.node.pods = {}
        for name, unit in self.held:
            if self.lags.get((name, unit), 0):
                self.lags[name, unit] -= 1
            else:
                self.node.pods.setdefault(name, set()).add(unit)
        self.node.now += 0.01
        return self.node.answered(self.node.now)  # type: ignore[no-any-return]

    def answer(self, _draw: int) -> None:
        """The oldest answer on its way arrives, or a fresh one."""
        self.node.fold(self.asked.pop(0) if self.asked else self._answered())

    def settle(self, _draw: int) -> None:
        """Nothing happens for a while, and PodResources answers all along."""
        for _ in range(4):
            self.node.fold(self._answered()).tick(10.5)
            self.check()

    def silent(self, _draw: int) -> None:
        """PodResources does not answer."""
        self.node.silent()

    def tick(self, seconds: float) -> None:
        """Time passes."""
        self.node.tick(seconds)

    def kubelet(self, empty: int) -> None:
        """The kubelet restarts, and lists no pod in its first answers."""
        self.asked.clear()
        self.kubelets += 1
        self._see("restarted")
        self._list_nothing(empty)
        self._list()

    def _see(self, event: str) -> None:
        identity = str(self.kubelets)
        self.node.fold(
            ev.KubeletChanged(state=event, detail="", identity=identity, at=self.node.now)
        )

    def _list_nothing(self, answers: int) -> None:
        for _ in range(answers):
            self.node.tick(10.5)
            begun = self.node.now
            self.node.now += 0.001
            answer = ev.HoldersAnswered(begun=begun, held={}, allocatable={}, at=self.node.now)
            self.node.fold(answer)
            self.check()

    def _list(self) -> None:
        self.node.tick(0.01)
        self.node.fold(self._answered())

    def process(self, draw: int) -> None:
        """We restart under the same kubelet, and see it before or after it answers."""
        self._restore()
        if draw % 2:
            self._see("present")
        self.node.fold(self._answered())
        self.node.scan(*self.node.devices)
        self.node.now += 0.01
        if draw % 2 == 0:
            self._see("present")

    def both(self, empty: int) -> None:
        """We and the kubelet restart together, we twice, before it lists any pod."""
        self.asked.clear()
        self.kubelets += 1
        for _ in range(2):
            self._restore()
            self.node.scan(*self.node.devices)
            self._see("present")
            self._list_nothing(empty)
        self._list()

    def _restore(self) -> None:
        """Begin with what the state folder keeps."""
        node = self.node
        config = node.inventory.config
        kept = state.snapshot(node.inventory, node.outcome.listing, "text", state.Identity())
        node.inventory, listing = state.restore(kept, now=node.now)
        node.outcome = Outcome(listing=listing)
        node.inventory = apply(
            node.inventory, ev.ConfigAccepted(config=config, text="text", at=node.now)
        )

    def unplug(self, draw: int) -> None:
        """A scan does not find one GPU, or one partition."""
        gone = self.gpus[draw % len(self.gpus)]
        self.node.scan(*(each for each in self.gpus if each is not gone))

    def divide(self, draw: int) -> None:
        """A GPU is divided in two, or made whole again, whoever holds it."""
        number = draw % GPUS
        whole = self.whole[number]
        mine = [each for each in self.gpus if each.physical == whole.id]
        divided = [_part(whole, 0), _part(whole, 1)] if mine == [whole] else [whole]
        rest = [each for each in self.gpus if each.physical != whole.id]
        self.gpus = tuple(sorted([*rest, *divided], key=lambda each: (each.index, each.id)))
        self.node.scan(*self.gpus)

    def plug(self, _draw: int) -> None:
        """A scan finds all GPUs."""
        self.node.scan(*self.gpus)

    def _counts(self) -> Counter[tuple[str, str]]:
        return Counter(
            (name, unit.device)
            for name, view in self.node.views.items()
            for unit in view.units
            if unit.healthy
        )

    def check(self) -> None:
        """The rules that hold at any moment."""
        listing = self.node.outcome.listing
        healthy = [
            (name, unit)
            for name, view in self.node.views.items()
            for unit in view.units
            if unit.healthy
        ]
        ids = Counter(unit.id for _, unit in healthy)
        assert not [unit for unit, count in ids.items() if count > 1], "Healthy under two names"
        for name, view in self.node.views.items():
            assert len(view.unit_by_id) == len(view.units), "one id twice in a list"
            units = {unit for resource, unit in self.held if resource == name}
            assert units <= set(view.unit_by_id), "a held id vanished"
        held = self.node.inventory.holders.held(self.node.now)
        known = {(name, unit) for name, units in held.items() for unit in units}
        assert self.held <= known, "a held unit counts as free"
        for device, target in listing.targets.items():
            mine = [(name, unit.id) for name, unit in healthy if unit.device == device]
            assert {name for name, _ in mine} <= {target.resource}, "Healthy under an old name"
            assert len(mine) <= target.replicas, "more Healthy units than the target"
            taken = {unit for unit in held.get(target.resource, ()) if slot_of(unit)[0] == device}
            elsewhere = [
                name
                for name, units in held.items()
                if name != target.resource and any(slot_of(unit)[0] == device for unit in units)
            ]
            assert not (mine and elsewhere), "given out anew while held under an old name"
            free = [unit for _, unit in mine if unit not in taken]
            assert len(free) <= max(0, target.replicas - len(taken)), "too many free units"
            before = self._held_as_before(device, held)
            assert not (mine and before), "given out anew while held as it was divided before"

    def _held_as_before(self, device: str, held: Any) -> list[str]:
        former = self.node.inventory.former
        known = self.node.inventory.known.get(device)
        return [
            unit
            for units in held.values()
            for unit in units
            if known and former.get(slot_of(unit)[0]) == known.device.physical
        ]


def _part(whole: Device, number: int) -> Device:
    part = DeviceId(f"{whole.id}-p{number}")
    return replace(whole, id=part, parent=whole.id, layout="halves")


@given(ops=OPS)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_rules_hold_and_the_list_converges(
    new_node: Callable[..., Any], ops: list[tuple[str, Any]]
) -> None:
    """No sequence takes a unit from a pod, doubles it, or keeps the list from its target."""
    world = World(new_node(gpus=GPUS))
    world.check()
    for op, argument in ops:
        world.run(op, argument)
    node = world.node
    node.pods = {}
    node.scan(*world.gpus)
    node.answer(4).tick(601.0)
    for _ in range(2):
        node.answer(1).tick(31.0).answer(4)
    wanted = {
        (target.resource, device): target.replicas
        for device, target in node.outcome.listing.targets.items()
    }
    listed = Counter(
        (name, unit.device) for name, view in node.views.items() for unit in view.units
    )
    assert listed == wanted
    assert all(unit.healthy for view in node.views.values() for unit in view.units)
    assert not node.outcome.draining
    assert not node.outcome.unmet


def test_the_check_can_fail(new_node: Callable[..., Any]) -> None:
    """A list without a unit that a pod holds is noticed, so the rules above are looked at."""
    world = World(new_node(gpus=GPUS))
    world.start(0)
    view = world.node.views[ResourceName(NAMES[0])]
    spoiled = {view.name: replace(view, units=view.units[1:])}
    world.node.outcome = replace(world.node.outcome, views=spoiled)
    with pytest.raises(AssertionError, match="vanished"):
        world.check()
