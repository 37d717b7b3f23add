"""The simulated kubelet: a node's side of the device plugin API, in this process."""

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from deviceplugin.model import ContainerEdits
from deviceplugin.simulation.kubelet.admission import Admissions
from deviceplugin.simulation.kubelet.changes import Change, ChangeKind, Journal
from deviceplugin.simulation.kubelet.devices import HEALTHY
from deviceplugin.simulation.kubelet.manager import Counts, Rules
from deviceplugin.simulation.kubelet.numa import Policy
from deviceplugin.simulation.kubelet.outcomes import KubeletCrashedError, KubeletStoppedError
from deviceplugin.simulation.kubelet.pod_table import PodRecord, PodTable
from deviceplugin.simulation.kubelet.pods import Admission, Devices, Pod
from deviceplugin.simulation.kubelet.process import Node, Process
from deviceplugin.simulation.kubelet.registry import LateEnd

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class SimulatedKubelet:
    """A kubelet that keeps the real device manager's rules, traps included.

    It lives through any number of process lives (``start``, ``stop``, ``restart``);
    pods and history stay. Every method may be called from any thread. ``admit``,
    ``readmit`` and ``start_container`` wait for plugins as long as a kubelet does,
    which is for ever; everything else answers at once.

    Attributes:
        root: a folder; its path must be short, for sockets in it have to fit 107 bytes.
        era: "1.36" (which stands for all before it) or "1.37".
        grace: seconds from the loss of a resource's last plugin until it is dropped.
        clock: what the grace is measured with, in seconds.
        seed: of everything that is random in a kubelet.
        disconnect_delay: seconds from the end of a stream until it is handled, era 1.36.
        late_end: what a stream's end does to the plugin that registered meanwhile, era 1.36.
        on_change: told every change, in order; must not block.
        policy: of the topology manager.
        numa: the machine's NUMA nodes; None for those that devices name.
        dial_seconds: how long Register tries to reach the plugin.
        rate_limited: PodResources answers 100 calls a second, 10 at once.
        keep: how many changes are remembered.
        crashed: what the kubelet died of last; "" while it has not, and after a start.

    """

    root: Path
    _: KW_ONLY
    era: str = "1.37"
    grace: float = 300.0
    clock: Callable[[], float] = time.monotonic
    seed: int = 0
    disconnect_delay: float = 0.0
    late_end: LateEnd = "wipe"
    on_change: Callable[[Change], None] | None = None
    policy: Policy = "none"
    numa: Sequence[int] | None = None
    dial_seconds: float = 10.0
    rate_limited: bool = True
    keep: int = 10_000
    crashed: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.plugin_dir = self.root / "device-plugins"
        self.pod_resources = self.root / "pod-resources" / "kubelet.sock"
        self._journal = Journal(self.on_change, keep=self.keep)
        self._pods = PodTable(self._journal)
        self._chance = random.Random(self.seed)  # noqa: S311 - repeatable chance, no secret
        self._refusals: deque[str] = deque()
        self._admitting = threading.Lock()
        self._node_resources: set[str] = set()
        self._admissions = Admissions(journal=self._journal, pods=self._pods, out_of=self._out_of)
        self._node = self._make_node()
        self._process: Process | None = None

    # Life

    def start(self) -> None:
        """Wipe the plugin folder's sockets, take up the checkpoint, listen on kubelet.sock."""
        if self.running:
            return
        process = Process(self._node)
        process.start()
        with self._journal.changing():
            self.crashed = ""
            self._process = process
            self._journal.note(Change(kind=ChangeKind.STARTED, detail=str(self.plugin_dir)))

    def stop(self, *, remove_sockets: bool = False) -> None:
        """Die. The socket files stay and refuse connections, unless ``remove_sockets``."""
        process = self._process
        if process is not None and self.running:
            process.stop()
            with self._journal.changing():
                self._journal.note(Change(kind=ChangeKind.STOPPED))
        if remove_sockets:
            self._node.registry_socket.unlink(missing_ok=True)
            self._node.pod_resources_socket.unlink(missing_ok=True)

    def restart(
        self, *, down: float = 0.0, reboot: bool = False, readmit: bool = True
    ) -> list[Admission]:
        """Die, stay away for ``down`` seconds, come back and admit the pods again.

        Args:
            down: seconds.
            reboot: the node rebooted: no container runs any more.
            readmit: False leaves the admission to a later ``readmit()``.

        """
        self.stop()
        if reboot:
            self._pods.stop_all()
        threading.Event().wait(down)
        self.start()
        return self.readmit() if readmit else []

    def readmit(self) -> list[Admission]:
        """Admit all active pods again, in random order, as a kubelet does after its start.

        Running containers pass without a look; finished init containers do not.

        Raises:
            KubeletCrashedError: a pod holds an id that is not listed any more (NUMA policies).

        """
        with self._admitting:
            records = self._pods.active()
            order = self._chance.sample(records, len(records))
            return [self._judge(self._alive(), record) for record in order]

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        process = self._process
        return process is not None and not process.manager.stopping

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # Counts

    def capacity(self) -> dict[str, int]:
        """Devices by resource, unhealthy ones included; nothing while the kubelet is down."""
        return dict(self._counts().capacity)

    def allocatable(self) -> dict[str, int]:
        """Healthy devices by resource, held or not; nothing while the kubelet is down."""
        return dict(self._counts().allocatable)

    def node(self) -> Counts:
        """What the Node object shows: resources once dropped stay in it, with 0."""
        counts = self._counts()
        zero = dict.fromkeys(sorted(self._node_resources), 0)
        return Counts(
            capacity={**zero, **counts.capacity}, allocatable={**zero, **counts.allocatable}
        )

    def devices(self, resource: str) -> dict[str, str]:
        """Health by id, as the kubelet counts it: ``Healthy`` or ``Unhealthy``."""
        process = self._process
        if process is None or not self.running:
            return {}
        lists = process.manager.lists
        with self._journal.reading():
            health = dict.fromkeys(lists.unhealthy.get(resource, ()), "Unhealthy")
            return health | dict.fromkeys(lists.healthy.get(resource, ()), HEALTHY)

    # Pods

    def admit(self, pod: Pod) -> Admission:
        """Admit a pod, one at a time: devices chosen, Allocate called, answers merged.

        A resource nobody ever registered is skipped: the pod runs without it.

        Raises:
            KubeletStoppedError: the kubelet is down, or died meanwhile.
            KubeletCrashedError: it died of this.
            ValueError: a pod of that name is there already.

        """
        with self._admitting:
            process = self._alive()
            self._counts()
            record = self._pods.add(pod)
            try:
                return self._judge(process, record)
            except (KubeletStoppedError, KubeletCrashedError):
                self._pods.discard(pod.name)
                raise

    def remove(self, pod_name: str) -> None:
        """End a pod; its devices are free from the next admission or PodResources List on."""
        with self._journal.changing():
            self._pods.discard(pod_name)
            self._journal.note(Change(kind=ChangeKind.REMOVED, pod=pod_name))

    def pods(self) -> dict[str, Devices]:
        """What each active pod holds, by container and resource."""
        process = self._process
        if process is None:
            return {}
        with self._journal.reading():
            return {
                each.pod.name: self._admissions.held(process, each) for each in self._pods.active()
            }

    def health(self, pod: str) -> dict[str, dict[str, dict[str, str]]]:
        """Health by container, resource and id, as the pod's status shows it.

        It is that of the last list: ids that vanish and plugins that go leave it as it was.
        Init containers have none.

        Raises:
            KubeletStoppedError: the kubelet is down.
            KeyError: no such pod.

        """
        process = self._alive()
        record = self._pods.get(pod)
        if record is None:
            raise KeyError(pod)
        status = process.manager.lists.status
        held = self._admissions.held(process, record)
        return {
            container.name: {
                resource: {id_: status(resource, id_) for id_ in ids}
                for resource, ids in held.get(container.name, {}).items()
            }
            for container in record.pod.containers
            if not container.init
        }

    def start_container(self, pod: str, container: str = "main") -> ContainerEdits:
        """Start a container (again): PreStartContainer where wanted, then the kept answer.

        Raises:
            KubeletStoppedError: the kubelet is down.
            ContainerStartError: the plugin refused, or is gone.
            KeyError: no such pod or container.

        """
        process = self._alive()
        record = self._pods.get(pod)
        if record is None:
            raise KeyError(pod)
        edits = process.allocator.start_container(record.uid, record.pod.container(container))
        record.running.add(container)
        return edits

    def exit_container(self, pod: str, container: str = "main") -> None:
        """Let a container end: after a kubelet restart its pod is checked again."""
        record = self._pods.get(pod)
        if record is None:
            raise KeyError(pod)
        record.running.discard(container)

    # Trouble

    def cut_stream(self, resource: str) -> None:
        """Break every ListAndWatch stream of a resource; the kubelet never opens it again."""
        process = self._process
        if process is not None:
            process.manager.cut(resource)

    def refuse_registrations(self, count: int, text: str = "refused on purpose") -> None:
        """Answer the next ``count`` Registers with an error, before the dial back."""
        self._refusals.extend([text] * count)

    # History

    def wait(self, condition: Callable[[], bool], timeout: float = 10.0) -> bool:
        """Wait until a condition holds, looking at each change; False after ``timeout`` s."""
        return self._journal.wait(condition, timeout)

    @property
    def changes(self) -> list[Change]:
        """Everything that happened, oldest first, as far back as ``keep`` goes."""
        with self._journal.reading():
            return list(self._journal.changes)

    @property
    def history(self) -> list[Change]:
        """Every list received: time, resource, healthy ids, ids."""
        return [change for change in self.changes if change.kind is ChangeKind.LIST]

    # Inside

    def _make_node(self) -> Node:
        return Node(
            registry_socket=self.plugin_dir / "kubelet.sock",
            pod_resources_socket=self.pod_resources,
            journal=self._journal,
            pods=self._pods,
            chance=self._chance,
            rules=Rules(
                era=self.era,
                grace=self.grace,
                clock=self.clock,
                disconnect_delay=self.disconnect_delay,
                late_end=self.late_end,
                dial_seconds=self.dial_seconds,
            ),
            policy=self.policy,
            numa_nodes=None if self.numa is None else tuple(self.numa),
            rate_limited=self.rate_limited,
            refused=self._next_refusal,
        )

    def _next_refusal(self) -> str:
        try:
            return self._refusals.popleft()
        except IndexError:
            return ""

    def _alive(self) -> Process:
        process = self._process
        if process is None or process.manager.stopping:
            raise KubeletStoppedError(self.crashed or "the kubelet is down; call start() first")
        return process

    def _counts(self) -> Counts:
        process = self._process
        if process is None or process.manager.stopping:
            return Counts()
        with self._journal.reading():
            self._node_resources |= process.manager.lists.resources()
        return process.manager.counts()

    def _judge(self, process: Process, record: PodRecord) -> Admission:
        try:
            return self._admissions.judge(process, record)
        except KubeletCrashedError as error:
            self._crash(process, str(error))
            raise

    def _crash(self, process: Process, what: str) -> None:
        logger.error("kubelet crashed", extra={"what": what})
        with self._journal.changing():
            self.crashed = what
            self._journal.note(Change(kind=ChangeKind.CRASHED, detail=what))
        process.stop()

    def _out_of(self, pod: Pod) -> str:
        """A resource the Node object still shows, with 0, after it was dropped."""
        known = self._counts().capacity
        asked = [resource for each in pod.containers for resource in each.limits]
        return next((each for each in asked if each in self._node_resources - known.keys()), "")
