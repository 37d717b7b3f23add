"""Who holds which devices, and what the plugins answered for them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from deviceplugin.api.v1beta1 import api_pb2


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one container holds of one resource; lives as long as its pod.

    ``nodes`` keeps the NUMA nodes that the ids had when they were allocated.
    """

    uid: str
    container: str
    resource: str
    nodes: Mapping[str, tuple[int, ...]]
    answer: api_pb2.ContainerAllocateResponse

    @property
    def ids(self) -> frozenset[str]:
        """The ids held."""
        return frozenset(self.nodes)


class Holdings:
    """All holdings, by pod uid, container and resource."""

    def __init__(self, holdings: Iterable[Holding] = ()) -> None:
        self._held = {self._key(holding): holding for holding in holdings}

    @staticmethod
    def _key(holding: Holding) -> tuple[str, str, str]:
        return (holding.uid, holding.container, holding.resource)

    def __iter__(self) -> Iterator[Holding]:
        return iter(self._held.values())

    def add(self, holding: Holding) -> None:
        """Remember what a container was given."""
        self._held[self._key(holding)] = holding

    def get(self, uid: str, container: str, resource: str) -> Holding | None:
        """What a container holds of a resource."""
        return self._held.get((uid, container, resource))

    def of(self, uid: str, container: str) -> list[Holding]:
        """What a container holds of everything."""
        return [each for each in self if (each.uid, each.container) == (uid, container)]

    def holders(self, id_: str, resource: str | None) -> list[str]:
        """Uids of those who hold an id of a resource; None stands for any."""
        return [
            each.uid for each in self if id_ in each.nodes and resource in (None, each.resource)
        ]

    def keep_only(self, uids: set[str]) -> bool:
        """Forget all other pods; says whether there were any."""
        gone = [key for key, holding in self._held.items() if holding.uid not in uids]
        for key in gone:
            del self._held[key]
        return bool(gone)

    def in_use(self) -> dict[str, set[str]]:
        """Ids held, by resource."""
        used: dict[str, set[str]] = {}
        for holding in self:
            used.setdefault(holding.resource, set()).update(holding.ids)
        return used
