"""Errors of the simulated kubelet: what a real one would answer, log, or die of."""

from deviceplugin.errors import DevicePluginError


class KubeletStoppedError(DevicePluginError):
    """Nobody is there to ask: start the kubelet first."""


class KubeletCrashedError(DevicePluginError):
    """The kubelet process died of something a plugin did; ``restart`` brings it back."""


class RegistrationRefusedError(DevicePluginError):
    """A Register that the kubelet answers with an error."""


class AllocationError(DevicePluginError):
    """A container's devices could not be had; its pod fails for good."""

    reason = "UnexpectedAdmissionError"


class AlignmentError(AllocationError):
    """The devices exist, but not on few enough NUMA nodes for the policy."""

    reason = "TopologyAffinityError"


class OutOfError(AllocationError):
    """The node has none of a resource (any more), whatever the device manager did."""

    def __init__(self, resource: str) -> None:
        super().__init__(f"Node didn't have enough resource: {resource}")
        self.reason = f"OutOf{resource}"


class ContainerStartError(DevicePluginError):
    """A container could not be started; a real kubelet tries again with a backoff."""
