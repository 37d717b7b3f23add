"""The kubelet's own device manager, as scenarios ask for it."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deviceplugin.model import ContainerEdits, DeviceNode, Mount
from deviceplugin.simulation.kubelet import Admission, Container, ContainerStartError, Pod
from deviceplugin.simulation.kubelet.pods import Devices
from tests.kubelet.harness import Harness, HarnessError, Reply
from tests.kubelet.node import GPU, Counts, Health, KubeletDiedError, Reached

_ADMIT_SECONDS = 60.0


class RealKubelet:
    """The device manager, topology manager and PodResources of one Kubernetes release."""

    simulated = False

    def __init__(
        self, program: Sequence[str], root: Path, release: str, **settings: object
    ) -> None:
        """Start it; ``settings`` are those of the harness's ``start``."""
        self.name = self.release = release
        self.plugin_dir = root / "device-plugins"
        self.pod_resources = root / "pod-resources" / "kubelet.sock"
        self.harness = Harness(program, root)
        self._pods: dict[str, Pod] = {}
        socket = "/var/lib/kubelet/pod-resources/kubelet.sock"
        self.started = self.harness.ask("start", podresources=socket, **settings)

    def close(self) -> None:
        """End it."""
        self.harness.close()

    # Counts

    def counts(self, resource: str = GPU) -> Counts:
        """Healthy and all devices of a resource."""
        return _counts(self.harness.ask("capacity"), resource)

    def on_node(self, resource: str = GPU) -> Counts:
        """The same as the Node object would carry it."""
        return _counts(self.harness.ask("node"), resource)

    def wait(
        self,
        *,
        allocatable: int | None = None,
        capacity: int | None = None,
        resource: str = GPU,
        seconds: float = 10,
    ) -> Reached:
        """Wait until the counts are these; -1 means that the resource is not there."""
        reply = self.harness.ask(
            "wait",
            resource=resource,
            healthy=allocatable,
            total=capacity,
            timeout_ms=round(seconds * 1000),
            poll_us=200,
            seconds=seconds + 20,
        )
        assert reply["reached"], (
            f"{self.name}: {resource} is {reply['healthy']}/{reply['total']} after {seconds} s, "
            f"not {allocatable}/{capacity}"
        )
        # The harness tells wall-clock time; the two clocks are read as one here.
        return Reached(at=time.monotonic() - (time.time_ns() - reply["reached_ns"]) / 1e9)

    def devices(self, resource: str = GPU) -> frozenset[str]:
        """The ids it counts as healthy."""
        return frozenset(self.harness.ask("devices")["allocatable"].get(resource, {}))

    # Pods

    def admit(self, name: str, *containers: Container) -> Admission:
        """Admit a pod of that name."""
        return self.admit_beside(name, *containers)(_ADMIT_SECONDS)

    def admit_beside(self, name: str, *containers: Container) -> Callable[[float], Admission]:
        """Begin to admit a pod and return at once; call the result to wait so many seconds."""
        pod = Pod(name=name, containers=containers)
        self._pods[name] = pod
        began = time.monotonic()
        answer = self.harness.begin("admit", pod=_request(pod), **{"async": True})

        def wait(seconds: float) -> Admission:
            reply = self.harness.checked(answer.get(timeout=seconds))
            return self._admission(reply, seconds=time.monotonic() - began)

        return wait

    def held(self) -> dict[str, Devices]:
        """Device ids by pod, container and resource."""
        pods = self.harness.ask("devices")["pods"]
        return {name: _devices(containers) for name, containers in pods.items()}

    def start_container(self, pod: str, container: str = "main") -> ContainerEdits:
        """What the runtime is told when a container starts (again)."""
        try:
            options = self.harness.ask("runopts", pod=pod, container=container)["options"]
        except HarnessError as error:
            raise ContainerStartError(str(error)) from None
        return _edits(options)

    def exit_container(self, pod: str, container: str = "main") -> None:
        """Let a container end."""
        self.harness.ask("exit", pod=pod, container=container)

    def remove(self, pod: str) -> None:
        """End a pod."""
        self.harness.ask("remove", pod=pod)

    def health(self, pod: str) -> Health:
        """What the pod's status says of its devices."""
        containers: Health = self.harness.ask("health", pod=pod)["containers"]
        return containers

    def refreshed(self, seconds: float = 0.0) -> set[str]:
        """Pods whose status is to be written again since this was asked last."""
        updates = self.harness.ask("updates", timeout_ms=round(seconds * 1000))["updates"]
        return {pod for each in updates or () for pod in each["pods"]}

    # Life

    def restart(
        self,
        *,
        down: float = 0.0,
        reboot: bool = False,
        readmit: bool = True,
        gone: tuple[str, ...] = (),
    ) -> list[Admission]:
        """Die, stay away, come back; admit the pods again unless told not to."""
        reply = self.harness.ask(
            "restart",
            down_ms=round(down * 1000),
            reboot=reboot,
            gone=gone,
            readmit="now" if readmit else "manual",
            seconds=down + 60,
        )
        return self._admissions(reply) if readmit else []

    def readmit(self) -> list[Admission]:
        """Admit the pods again, as after a start."""
        return self._admissions(self.harness.ask("readmit"))

    def alive(self) -> bool:
        """Whether its process lives and answers."""
        try:
            self.harness.ask("healthz")
        except KubeletDiedError:
            return False
        return True

    def _admissions(self, reply: Reply) -> list[Admission]:
        return [self._admission(each, seconds=0.0) for each in reply["readmit"]]

    def _admission(self, reply: Reply, *, seconds: float) -> Admission:
        return Admission(
            pod=self._pods[reply["uid"]],
            admitted=reply["admitted"],
            reason=reply.get("reason", ""),
            message=reply.get("message", ""),
            devices=_devices(reply.get("devices", {})),
            seconds=seconds,
        )


def _counts(reply: Reply, resource: str) -> Counts:
    return Counts(
        allocatable=reply["allocatable"].get(resource), capacity=reply["capacity"].get(resource)
    )


def _devices(containers: Reply) -> Devices:
    return {
        container: {resource: tuple(sorted(ids)) for resource, ids in resources.items()}
        for container, resources in containers.items()
    }


def _request(pod: Pod) -> dict[str, object]:
    init = [_container(each) for each in pod.containers if each.init]
    main = [_container(each) for each in pod.containers if not each.init]
    return {"name": pod.name, "uid": pod.name, "init_containers": init, "containers": main}


def _container(container: Container) -> dict[str, object]:
    return {
        "name": container.name,
        "limits": dict(container.limits),
        "restartable": container.restartable,
    }


def _edits(options: dict[str, Any] | None) -> ContainerEdits:
    """Read what the kubelet would hand to the runtime; a key is absent where there is nothing."""
    given = {name: entries or [] for name, entries in (options or {}).items()}
    return ContainerEdits(
        env={each["Name"]: each["Value"] for each in given.get("Envs", [])},
        mounts=tuple(
            Mount(
                container_path=each["ContainerPath"],
                host_path=each["HostPath"],
                read_only=each["ReadOnly"],
            )
            for each in given.get("Mounts", [])
        ),
        device_nodes=tuple(
            DeviceNode(
                container_path=each["PathInContainer"],
                host_path=each["PathOnHost"],
                permissions=each["Permissions"],
            )
            for each in given.get("Devices", [])
        ),
        annotations={each["Name"]: each["Value"] for each in given.get("Annotations", [])},
        cdi_names=tuple(each["Name"] for each in given.get("CDIDevices", [])),
    )
