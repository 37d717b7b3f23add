"""Units that nothing tells apart: the search counts them instead of naming them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deviceplugin.allocation.question import Candidate, Question
from deviceplugin.model import DeviceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """Units that nothing tells apart.

    Attributes:
        places: in ``Question.free``, ascending.
        inside: weight between two of them.
        to: weight to a unit of each class.
        fixed: sum of the weights to what must be included.
        near: sums of the 0, 1, 2, … smallest weights to other free units.
        twin: an earlier class that could change places with this one; -1 for none.

    """

    places: tuple[int, ...]
    gpu: DeviceId
    node: int | None
    inside: int
    to: tuple[int, ...]
    fixed: int
    near: tuple[int, ...]
    twin: int = -1

    @property
    def size(self) -> int:
        """Number of units."""
        return len(self.places)


def classes(question: Question) -> list[Class]:
    """Group what is offered, the most central class first."""
    free = question.free
    table = [
        [0 if one is other else question.weight(one.device, other.device) for other in free]
        for one in free
    ]
    fixed = [
        [question.weight(one.device, other.device) for other in question.fixed] for one in free
    ]
    groups = _grouped(question, table, fixed)
    # The most central first: what is decided early then tells the most about what is possible.
    groups.sort(key=lambda group: sum(sorted(table[group[0]])[: question.count]))
    made = [_class(question, group, groups, table, fixed) for group in groups]
    return [_with_twin(question, made, number) for number in range(len(made))]


def _grouped(question: Question, table: list[list[int]], fixed: list[list[int]]) -> list[list[int]]:
    groups: list[list[int]] = []
    for place, candidate in enumerate(question.free):
        for group in groups:
            first = group[0]
            alike = _part_of(question, candidate) == _part_of(question, question.free[first])
            if alike and fixed[place] == fixed[first] and _same_row(table, place, first):
                group.append(place)
                break
        else:
            groups.append([place])
    return groups


def _part_of(question: Question, candidate: Candidate) -> tuple[DeviceId | None, int | None]:
    gpu = candidate.gpu if candidate.gpu in question.parts else None
    return gpu, candidate.node


def _same_row(table: list[list[int]], one: int, other: int) -> bool:
    """Whether two units are as far from everything else."""
    row = list(table[other])
    row[one], row[other] = row[other], row[one]
    return row == table[one]


def _class(
    question: Question,
    group: list[int],
    groups: list[list[int]],
    table: list[list[int]],
    fixed: list[list[int]],
) -> Class:
    first = group[0]
    row = table[first]
    others = sorted(weight for place, weight in enumerate(row) if place != first)
    near = [0]
    for weight in others[: max(0, question.count - 1)]:
        near.append(near[-1] + weight)
    return Class(
        places=tuple(group),
        gpu=question.free[first].gpu,
        node=question.free[first].node,
        inside=row[group[1]] if len(group) > 1 else 0,
        to=tuple(row[other[0]] for other in groups),
        fixed=sum(fixed[first]),
        near=tuple(near),
    )


def _with_twin(question: Question, made: Sequence[Class], number: int) -> Class:
    kind = made[number]
    twins = (
        other for other in range(number - 1, -1, -1) if _could_swap(question, made, other, number)
    )
    twin = next(twins, -1)
    return replace(kind, twin=twin)


def _could_swap(question: Question, made: Sequence[Class], one: int, other: int) -> bool:
    a, b = made[one], made[other]
    if (a.size, a.inside, a.fixed, a.node) != (b.size, b.inside, b.fixed, b.node):
        return False
    if _standing(question, made, a) != _standing(question, made, b):
        return False
    return all(
        a.to[third] == b.to[third] for third in range(len(made)) if third not in (one, other)
    )


def _standing(question: Question, made: Sequence[Class], kind: Class) -> tuple[int, int, int]:
    """What a GPU's breaking depends on: its parts, those already taken, classes it is in."""
    parts = question.parts.get(kind.gpu, 0)
    if not parts:
        return 0, 0, 0
    held = sum(each.gpu == kind.gpu for each in question.fixed)
    return parts, held, sum(each.gpu == kind.gpu for each in made)
