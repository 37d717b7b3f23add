"""A kubelet that keeps the real one's rules towards device plugins, in one process."""

from deviceplugin.simulation.kubelet.changes import Change, ChangeKind
from deviceplugin.simulation.kubelet.kubelet import SimulatedKubelet
from deviceplugin.simulation.kubelet.outcomes import (
    ContainerStartError,
    KubeletCrashedError,
    KubeletStoppedError,
)
from deviceplugin.simulation.kubelet.pods import Admission, Container, Pod

__all__ = [
    "Admission",
    "Change",
    "ChangeKind",
    "Container",
    "ContainerStartError",
    "KubeletCrashedError",
    "KubeletStoppedError",
    "Pod",
    "SimulatedKubelet",
]
