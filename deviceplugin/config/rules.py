"""The vendor-neutral outcome of loading a config: what to share, how, and which faults count."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from deviceplugin.model import Action, AllocationRules, ResourceName


@dataclass(frozen=True, slots=True, kw_only=True)
class AllDevices:
    """Every device of the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDevices:
    """The first ``count`` devices, by index."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDevices:
    """Devices by name: an index ("3"), an id (a GPU UUID) or ``model:GLOB``."""

    names: tuple[str, ...]


Devices = AllDevices | FirstDevices | ListedDevices


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRule:
    """One entry of a sharing block.

    Attributes:
        resource: the resource whose devices it shares; None means every
            resource of the node (``replicas`` at block level).
        replicas: units per device, 1 to 65,536; 1 lists the plain device id.
        rename: the name the units are listed under; None keeps ``resource``.
        rename_suffix: ``.shared`` under ``renameByDefault``, added where ``rename`` is None.
        devices: which devices of the resource.
        where: ``nvidia.yaml:7 sharing.timeSlicing.resources[0]``, for messages.

    """

    resource: ResourceName | None
    replicas: int
    rename: ResourceName | None = None
    rename_suffix: str = ""
    devices: Devices = AllDevices()
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPolicy:
    """Which symptoms count, by kind; the vendor's table is the default.

    Attributes:
        overrides: ``{"xid-79": Action.IGNORE}``, from the config.
        disabled: kinds switched off by DP_DISABLE_HEALTHCHECKS; a name ending in
            ``*`` stands for all that begin so (``xid-*``).
        enabled: kinds switched on again by DP_ENABLE_HEALTHCHECKS, same grammar.

    """

    overrides: Mapping[str, Action] = field(default_factory=dict)
    disabled: tuple[str, ...] = ()
    enabled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A valid config of one vendor.

    Attributes:
        source: the file, or "defaults" / "last good config".
        digest: of the text, short; equal texts give equal digests.
        rules: in the order of the file.
        allocation: applies to every resource with a rule (``shared``), see plan.
        flags: the vendor's own validated, frozen options (see config.schema).
        warnings: one line each, complete.

    """

    source: str = "defaults"
    digest: str = ""
    rules: tuple[ShareRule, ...] = ()
    allocation: AllocationRules = field(default_factory=AllocationRules)
    health: HealthPolicy = field(default_factory=HealthPolicy)
    flags: object = None
    warnings: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One thing wrong with a config's text; ``str()`` is the line people read.

    Attributes:
        file, line: where, lines counted from 1; 0 where there are none (a variable, a folder).
        path: the key's path, ``sharing.timeSlicing.resources[0].replicas``; "" for the document.
        found: what stands there, shortened.
        remedy: what to write instead.

    """

    file: str
    line: int
    path: str
    found: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        key = f" {self.path}:" if self.path else ""
        return f"{where}:{key} found {self.found}; {self.remedy}"
