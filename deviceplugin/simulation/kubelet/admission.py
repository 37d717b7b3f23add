"""Verdicts on pods: admitted with what they were given, or failed with the reason."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from deviceplugin.simulation.kubelet.changes import Change, ChangeKind, Journal
from deviceplugin.simulation.kubelet.outcomes import (
    AlignmentError,
    AllocationError,
    KubeletStoppedError,
    OutOfError,
)
from deviceplugin.simulation.kubelet.pod_table import PodRecord, PodTable
from deviceplugin.simulation.kubelet.pods import Admission, Devices, Pod
from deviceplugin.simulation.kubelet.process import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class Admissions:
    """Judges pods and writes each verdict down.

    Attributes:
        out_of: names a resource that a pod asks for and the node has none of, or "".

    """

    journal: Journal
    pods: PodTable
    out_of: Callable[[Pod], str]

    def judge(self, process: Process, record: PodRecord) -> Admission:
        """Admit a pod, or fail it for good.

        Raises:
            KubeletStoppedError: the process died before there was a verdict.
            KubeletCrashedError: it dies of this.

        """
        began = time.monotonic()
        try:
            process.admit(record)
            self._check_predicates(record.pod)
        except AllocationError as error:
            _check_alive(process)
            return self._rejected(record, error, began)
        _check_alive(process)
        return self._admitted(process, record, began)

    def held(self, process: Process, record: PodRecord) -> Devices:
        """What a pod holds; containers that hold nothing are left out."""
        holdings = process.manager.holdings
        with self.journal.reading():
            each = {
                container.name: {
                    held.resource: tuple(sorted(held.ids))
                    for held in holdings.of(record.uid, container.name)
                }
                for container in record.pod.containers
            }
        return {name: devices for name, devices in each.items() if devices}

    def _check_predicates(self, pod: Pod) -> None:
        missing = self.out_of(pod)
        if missing:
            raise OutOfError(missing)

    def _admitted(self, process: Process, record: PodRecord, began: float) -> Admission:
        names = [container.name for container in record.pod.containers]
        admission = Admission(
            pod=record.pod,
            admitted=True,
            devices=self.held(process, record),
            edits={name: process.allocator.edits(record.uid, name) for name in names},
            seconds=time.monotonic() - began,
        )
        with self.journal.changing():
            record.start()
            self.journal.note(Change(kind=ChangeKind.ADMITTED, pod=record.pod.name))
        return admission

    def _rejected(self, record: PodRecord, error: AllocationError, began: float) -> Admission:
        admission = Admission(
            pod=record.pod,
            admitted=False,
            reason=error.reason,
            message=_sentence(error),
            seconds=time.monotonic() - began,
        )
        with self.journal.changing():
            self.pods.discard(record.pod.name)
            detail = f"{admission.reason}: {admission.message}"
            self.journal.note(Change(kind=ChangeKind.REJECTED, pod=record.pod.name, detail=detail))
        return admission


def _check_alive(process: Process) -> None:
    if process.manager.stopping:
        raise KubeletStoppedError("the kubelet died while it admitted a pod; admit it again")


def _sentence(error: AllocationError) -> str:
    if isinstance(error, OutOfError | AlignmentError):
        return str(error)
    return f"Allocate failed due to {error}, which is unexpected"
