"""The pods of the node: as the API server and the container runtime know them.

They outlive the kubelet. All methods take the journal's lock.
"""

from dataclasses import dataclass, field

from deviceplugin.simulation.kubelet.changes import Journal
from deviceplugin.simulation.kubelet.pods import Pod


@dataclass(slots=True, kw_only=True)
class PodRecord:
    """A pod and the names of its running containers."""

    pod: Pod
    uid: str
    running: set[str] = field(default_factory=set)

    def start(self) -> None:
        """Run what goes on running once the pod has started."""
        self.running = {each.name for each in self.pod.containers if not each.ends_early}


def name_in(uid: str) -> str:
    """Return the pod's name that a uid carries."""
    return uid.split("/")[1]


class PodTable:
    """Active pods by name: those that are neither gone nor rejected."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._records: dict[str, PodRecord] = {}
        self._count = 0

    def add(self, pod: Pod) -> PodRecord:
        """Begin with a pod; it counts as active from its admission on.

        Raises:
            ValueError: the name is taken.

        """
        with self._journal.reading():
            if pod.name in self._records:
                raise ValueError(f"pod {pod.name} is there already; remove it or name this another")
            self._count += 1
            record = PodRecord(pod=pod, uid=f"{pod.namespace}/{pod.name}/{self._count}")
            self._records[pod.name] = record
            return record

    def discard(self, name: str) -> None:
        """End a pod; its devices come back at the next look at who is active."""
        with self._journal.reading():
            self._records.pop(name, None)

    def get(self, name: str) -> PodRecord | None:
        """The active pod of that name."""
        with self._journal.reading():
            return self._records.get(name)

    def active(self) -> list[PodRecord]:
        """All active pods, oldest first."""
        with self._journal.reading():
            return list(self._records.values())

    def active_uids(self) -> set[str]:
        """Their uids."""
        return {record.uid for record in self.active()}

    def stop_all(self) -> None:
        """Nothing runs any more, as after a reboot of the node."""
        for record in self.active():
            record.running = set()
