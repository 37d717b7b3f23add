"""Errors of this project. Each message says what was found, where, and what to do."""


class DevicePluginError(Exception):
    """Root of every error raised on purpose; ``str()`` is the text a person reads."""


class WrongUseError(DevicePluginError):
    """The command line or the environment is wrong; the process exits with 2."""


class AllocationRefusedError(DevicePluginError):
    """An Allocate that a rule forbids or that names an id we never listed.

    The kubelet puts the text into the pod's status, behind
    ``UnexpectedAdmissionError``, so it speaks to the pod's owner.
    """
