"""Which KFD node is which PCI function, or which partition of it. Pure.

Two rules throughout: what contradicts itself is left out with a line that says why, and
nothing is ever taken over from a neighbour.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deviceplugin.vendors.amd.drm import Minors
from deviceplugin.vendors.amd.kfd import KfdNode, Topology
from deviceplugin.vendors.amd.pci import Function, Slot, slots

MOST_PARTITIONS = 8
"""Of one GPU: an MI300X has eight compute dies, and each is a partition at most."""

_BY_MODE = {"dpx": 2, "tpx": 3, "qpx": 4}

HIDDEN = (
    "its partitions cannot be told apart: KFD hides its nodes from this process (device"
    " cgroup); give the pod access to the GPUs, see daemonset/components/amd-partitions"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One unit of hardware: a whole GPU, or one partition.

    Attributes:
        number: of the partition; None for a whole GPU.
        node: None for a whole GPU whose KFD node is hidden from us.
        minors: of its own ``/dev/dri`` nodes.

    """

    function: Function
    node: KfdNode | None
    number: int | None = None
    minors: Minors


@dataclass(slots=True, kw_only=True)
class Join:
    """The join of one scan; ``parts`` in the order of KFD's nodes, hidden ones last."""

    topology: Topology
    functions: Sequence[Function]
    xcp: Mapping[int, Minors]
    parts: list[Part] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Find the parts."""
        nodes = self._assigned()
        for function in self.functions:
            self._function(function, nodes.get(function.address, []))
        self._expect()
        self.parts.sort(key=_place)

    def _assigned(self) -> dict[str, list[KfdNode]]:
        by_slot = slots(self.functions)
        owners = {each.minors.render: each.address for each in self.functions}
        doubled = _doubled(node.render_minor for node in self.topology.gpus)
        found: dict[str, list[KfdNode]] = {}
        for node in self.topology.gpus:
            function = self._function_of(node, by_slot)
            if function is None:
                continue
            if owners.get(node.render_minor, function.address) != function.address:
                other = owners[node.render_minor]
                self._odd(node, function, f"names the render node of {other}")
            elif node.render_minor in doubled and node.render_minor != function.minors.render:
                self._odd(node, function, "names a render node that another node names, too")
            else:
                found.setdefault(function.address, []).append(node)
        return found

    def _function_of(
        self, node: KfdNode, by_slot: Mapping[Slot, list[Function]]
    ) -> Function | None:
        candidates = _candidates(node, by_slot)
        if len(candidates) > 1:
            candidates = _told_apart(node, candidates)
        if len(candidates) == 1:
            return candidates[0]
        where = f"{node.domain or 0:04x}:{node.bus:02x}:{node.device:02x}"
        what = "several functions" if candidates else "no function"
        self.problems.append(
            f"KFD node {node.number}: amdgpu drives {what} at {where}, so its GPU is unknown"
        )
        return None

    def _odd(self, node: KfdNode, function: Function, why: str) -> None:
        self.problems.append(f"{function.address}: KFD node {node.number} {why}; it is left out")

    def _function(self, function: Function, nodes: list[KfdNode]) -> None:
        if not nodes:
            self._without_node(function)
        elif function.is_whole and (function.compute or len(nodes) == 1):
            self._whole(function, nodes)
        else:
            self._partitions(function, nodes)

    def _without_node(self, function: Function) -> None:
        if not self.topology.hidden:
            why = "KFD has no node for it: no GPU for compute, or its start failed (see dmesg)"
            self.problems.append(f"{function.address}: {why}")
        elif not function.is_whole:
            self.problems.append(f"{function.address} ({function.layout}): {HIDDEN}")
        elif function.minors.render is not None:
            self.parts.append(Part(function=function, node=None, minors=function.minors))
        else:
            self.problems.append(f"{function.address}: it has no render node")

    def _whole(self, function: Function, nodes: list[KfdNode]) -> None:
        own = function.minors.render
        mine = [node for node in nodes if own is None or node.render_minor in (None, own)]
        exact = [node for node in mine if node.render_minor == own]
        chosen = exact if len(exact) == 1 else mine
        if len(chosen) != 1:
            self.problems.append(
                f"{function.address}: KFD shows {len(nodes)} nodes for it, and not one that"
                f" fits its render node; it is looked at again"
            )
            return
        (node,) = chosen
        for other in nodes:
            if other is not node:
                self._odd(other, function, "does not fit its render node")
        minors = function.minors if own is not None else Minors(render=node.render_minor)
        if minors.render is None:
            self.problems.append(f"{function.address}: neither KFD nor drm has a render node of it")
            return
        self.parts.append(Part(function=function, node=node, minors=minors))

    def _partitions(self, function: Function, nodes: list[KfdNode]) -> None:
        numbers = _numbers(function, nodes)
        for node in nodes:
            number = numbers.get(node.number)
            minors = self._minors(function, node)
            if number is None:
                self._odd(node, function, "has a partition number that does not fit the others")
            elif minors is None:
                why = "has no render node (hidden from this process, or not made yet)"
                self._odd(node, function, why)
            else:
                part = Part(function=function, node=node, number=number, minors=minors)
                self.parts.append(part)

    def _minors(self, function: Function, node: KfdNode) -> Minors | None:
        if node.render_minor is None:
            return None
        if node.render_minor == function.minors.render:
            return function.minors
        return self.xcp.get(node.render_minor, Minors(render=node.render_minor))

    def _expect(self) -> None:
        """Say which GPUs show fewer partitions than they have."""
        shown = Counter(part.function.address for part in self.parts)
        for address, wanted in expected(self.parts).items():
            if shown[address] < wanted:
                self.problems.append(
                    f"{wanted - shown[address]} of the {wanted} partitions of {address}:"
                    " KFD does not show them; the others are served"
                )


def expected(parts: Iterable[Part]) -> Mapping[str, int]:
    """Partitions that each partitioned GPU should show, by PCI address."""
    by_gpu: dict[str, list[Part]] = {}
    for part in parts:
        if part.number is not None:
            by_gpu.setdefault(part.function.address, []).append(part)
    most = _most(by_gpu.values())
    return {
        address: max(
            most[found[0].function.kind, found[0].function.layout],
            _BY_MODE.get(found[0].function.compute, 0),
        )
        for address, found in by_gpu.items()
    }


def _most(gpus: Iterable[list[Part]]) -> Mapping[tuple[str, str], int]:
    """By model and layout: the most partitions that a GPU shows, or that its numbers imply."""
    most: dict[tuple[str, str], int] = {}
    for parts in gpus:
        key = (parts[0].function.kind, parts[0].function.layout)
        implied = max(len(parts), *(1 + (part.number or 0) for part in parts))
        most[key] = max(most.get(key, 0), implied)
    return most


def _candidates(node: KfdNode, by_slot: Mapping[Slot, list[Function]]) -> list[Function]:
    if node.domain is not None:
        slot = Slot(domain=node.domain, bus=node.bus, device=node.device)
        return by_slot.get(slot, [])
    # Old drivers leave the domain out: 0 if that fits, else the only one that does.
    first = by_slot.get(Slot(domain=0, bus=node.bus, device=node.device))
    if first:
        return first
    return [
        function
        for slot, functions in by_slot.items()
        if (slot.bus, slot.device) == (node.bus, node.device)
        for function in functions
    ]


def _told_apart(node: KfdNode, candidates: list[Function]) -> list[Function]:
    same_node = [each for each in candidates if each.minors.render == node.render_minor]
    if node.render_minor is not None and len(same_node) == 1:
        return same_node
    low = node.location & 7
    return [each for each in candidates if each.function == low] or candidates


def _numbers(function: Function, nodes: list[KfdNode]) -> dict[int, int]:
    """Partition numbers by KFD node; a node whose number cannot be trusted is left out.

    Newer kernels write the number into bits 31:28 of the location, others into its low
    three, some nowhere. Render minors of a GPU are one block in the order of the numbers.
    """
    base = function.minors.render
    high = any(node.location >> 28 for node in nodes)
    told = {node.number: node.location >> 28 if high else node.location & 7 for node in nodes}
    block = {
        node.number: node.render_minor - base
        for node in nodes
        if base is not None and node.render_minor is not None
    }
    if len(nodes) > 1 and len(set(told.values())) == 1:
        told = block
    told = {node: number for node, number in told.items() if 0 <= number < MOST_PARTITIONS}
    agreeing = {node for node, number in told.items() if block.get(node) == number}
    if 2 * len(agreeing) > len(nodes):
        return {node: number for node, number in told.items() if node in agreeing}
    twice = _doubled(told.values())
    return {node: number for node, number in told.items() if number not in twice}


def _doubled(values: Iterable[int | None]) -> set[int]:
    count = Counter(value for value in values if value is not None)
    return {value for value, times in count.items() if times > 1}


def _place(part: Part) -> tuple[bool, int, str]:
    if part.node is None:
        return True, 0, part.function.address
    return False, part.node.number, part.function.address
