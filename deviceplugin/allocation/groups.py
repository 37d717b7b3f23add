"""GPUs in parts and NUMA nodes: what a set of units breaks, and what it leaves over. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from deviceplugin.allocation.classes import Class
from deviceplugin.allocation.question import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A GPU listed in parts, or a NUMA node.

    Attributes:
        classes: in it.
        free: units that are free, those that must be included left out.
        held: units that must be included.
        whole: units it has in all, where all of them were free; 0 where not.

    """

    classes: tuple[int, ...]
    free: int
    held: int
    whole: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """What is broken or left over in all of them."""

    groups: tuple[Group, ...]
    loose: tuple[int, ...] = ()  # from each class on: units whose taking breaks no GPU
    wholes: tuple[tuple[int, int], ...] = ()  # from each class on: unbroken GPUs, their size

    @classmethod
    def of(cls, question: Question, kinds: Sequence[Class], *, by_gpu: bool) -> "Groups":
        """Group the classes by GPU in parts, or by NUMA node."""
        members: dict[object, list[int]] = {}
        for place, kind in enumerate(kinds):
            key: object = kind.gpu if by_gpu else kind.node
            if key in question.parts if by_gpu else key is not None:
                members.setdefault(key, []).append(place)
        fixed = Counter(each.gpu if by_gpu else each.node for each in question.fixed)
        groups = []
        for key, classes in members.items():
            free = sum(kinds[place].size for place in classes)
            held = fixed[key]  # type: ignore[index]  # a Counter answers 0 for any key
            parts = question.parts.get(key, 0) if by_gpu else 0  # type: ignore[call-overload]  # as above
            whole = parts if free + held == parts else 0
            groups.append(Group(classes=tuple(classes), free=free, held=held, whole=whole))
        made = tuple(groups)
        return _with_tails(cls(groups=made), kinds) if by_gpu else cls(groups=made)

    def broken(self, counts: Sequence[int]) -> int:
        """Groups that were all free, and of which only some is taken."""
        return sum(self._is_broken(group, counts) for group in self.groups if group.whole)

    def broken_before(self, place: int, counts: Sequence[int]) -> int:
        """The same of groups whose classes are all decided."""
        return sum(
            self._is_broken(group, counts)
            for group in self.groups
            if group.whole and group.classes[-1] < place
        )

    def must_break(self, place: int, left: int) -> int:
        """1 when so many further units cannot be had without breaking one more."""
        if not self.loose:
            return 0
        loose, (wholes, size) = self.loose[place], self.wholes[place]
        if left <= loose or not size:
            return 0
        return int(not any(0 <= left - full * size <= loose for full in range(wholes + 1)))

    def spare(self, counts: Sequence[int]) -> int:
        """Units left free in the groups that are touched."""
        spare = 0
        for group in self.groups:
            taken = sum(counts[place] for place in group.classes)
            if taken or group.held:
                spare += group.free - taken
        return spare

    @staticmethod
    def _is_broken(group: Group, counts: Sequence[int]) -> bool:
        taken = group.held + sum(counts[place] for place in group.classes)
        return 0 < taken < group.whole


def _with_tails(made: Groups, kinds: Sequence[Class]) -> Groups:
    """Add what is needed to tell early that a GPU must be broken; only where GPUs are alike."""
    plain = [group for group in made.groups if group.whole and not group.held]
    sizes = {group.whole for group in plain}
    if len(sizes) != 1 or any(len(group.classes) > 1 for group in plain):
        return made
    (size,) = sizes
    whole_classes = {group.classes[0] for group in plain}
    loose, wholes = [0], [(0, size)]
    for place in range(len(kinds) - 1, -1, -1):
        is_whole = place in whole_classes
        loose.append(loose[-1] + (0 if is_whole else kinds[place].size))
        wholes.append((wholes[-1][0] + is_whole, size))
    return replace(made, loose=tuple(reversed(loose)), wholes=tuple(reversed(wholes)))
