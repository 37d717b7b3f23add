"""What the configs of all vendors share: ``version`` and ``sharing``.

Each field says its default, its unit and why it is there; from these declarations come
the checks, the messages, the table of environment variables and the JSON schema.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from deviceplugin.config.devices import DeviceNameError, Grammar
from deviceplugin.config.names import NameInvalidError, qualify
from deviceplugin.config.rules import HealthPolicy
from deviceplugin.config.scalars import shown
from deviceplugin.model import Policy

MAX_REPLICAS = 65_536
"""Beyond this no list of one GPU fits the kubelet's message limit anyway."""

MAX_ENTRIES = 256
"""Of ``resources``: far more than a node has devices to tell apart."""


class Block(BaseModel):
    """A mapping of the file: unknown keys are refused, a key without a value is absent."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, serialize_by_alias=True
    )

    @model_validator(mode="before")
    @classmethod
    def _absent(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        return {key: value for key, value in data.items() if value is not None}


def key(
    *,
    why: str,
    default: Any = ...,
    env: tuple[str, ...] = (),
    no_effect: str = "",
    write: str = "",
    **constraints: Any,
) -> Any:
    """Declare a key.

    Args:
        why: what it does, its unit, its default in words, and why one would set it.
        default: its default; left out for a key that must be written.
        env: environment variables that override it, the first that is set wins.
        no_effect: why it does nothing here; makes one warning where it is written.
        write: what to write, in messages; derived from the type where it is "".
        constraints: pydantic's own, ``alias``, ``ge``, ``le``, …

    """
    extra = {"x-env": list(env), "x-no-effect": no_effect, "x-write": write}
    kept: Any = {name: value for name, value in extra.items() if value}
    text = f"{why} No effect here: {no_effect}." if no_effect else why
    return Field(default, description=text, json_schema_extra=kept, **constraints)


def refusal(value: object, remedy: str) -> PydanticCustomError:
    """Refuse a value of the right type; ``remedy`` says what to write instead."""
    return PydanticCustomError("refused", "{remedy}", {"found": shown(value), "remedy": remedy})


def _resource_name(value: str, info: ValidationInfo) -> str:
    try:
        return qualify(value, _context(info)["domain"])
    except NameInvalidError as error:
        raise refusal(value, str(error)) from error


def _device_name(value: object, info: ValidationInfo) -> str:
    grammar: Grammar = _context(info)["grammar"]
    try:
        return grammar(value)
    except DeviceNameError as error:
        raise refusal(value, str(error)) from error


def _context(info: ValidationInfo) -> Any:
    return info.context


_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/[-\w.]*", re.ASCII)


def _absolute(value: str) -> str:
    if not value.startswith("/"):
        raise refusal(value, "write an absolute path")
    return value


def _absolute_or_none(value: str) -> str:
    if value and not value.startswith("/"):
        raise refusal(value, 'write an absolute path, or "" for none')
    return value


def _annotation_prefix(value: str) -> str:
    if not _PREFIX.fullmatch(value):
        raise refusal(value, "write a domain and a slash, as in cdi.k8s.io/")
    return value


def strategies_form(value: object) -> str:
    """Tell one strategy from a list of them."""
    return "list" if isinstance(value, list | tuple) else "one"


Directory = Annotated[str, AfterValidator(_absolute)]
OptionalPath = Annotated[str, AfterValidator(_absolute_or_none)]
AnnotationPrefix = Annotated[str, AfterValidator(_annotation_prefix)]
SharePolicy = Literal["distributed", "packed"]
Name = Annotated[str, AfterValidator(_resource_name)]
DeviceName = Annotated[
    object, BeforeValidator(_device_name), WithJsonSchema({"type": ["integer", "string"]})
]


def _devices_form(value: object) -> str:
    match value:
        case str():
            return "all"
        case list() | tuple():
            return "list"
        case _:
            return "count"


DevicesField = Annotated[
    Annotated[Literal["all"], Tag("all")]
    | Annotated[Annotated[int, Field(ge=1)], Tag("count")]
    | Annotated[Annotated[tuple[DeviceName, ...], Field(min_length=1)], Tag("list")],
    Discriminator(_devices_form),
]

Replicas = Annotated[int, Field(ge=1, le=MAX_REPLICAS)]


class SharedResource(Block):
    """One resource to share, or some of its devices."""

    name: Name = key(
        why="The resource whose devices are shared, such as nvidia.com/gpu; the vendor's domain"
        " may be left out. Must be written.",
        write="a resource name such as gpu",
    )
    replicas: Replicas = key(
        why="Units per device, 1 to 65,536; 1 leaves the device whole. Must be written: how "
        "many pods fit on a device depends on the work.",
    )
    rename: Name | None = key(
        default=None,
        why="The name that the shares are listed under. Default: the resource's own name. Lets "
        "pods choose between shared and whole devices.",
        write="a resource name such as gpu.shared",
    )
    devices: DevicesField = key(
        default="all",
        why="Which devices: all (the default), a count (the first so many by index), or a list "
        "of indexes, ids and model:GLOB. Lets one node offer whole devices beside shared "
        "ones.",
        write="all, a count such as 2, or a list such as [0, 3]",
    )


class TimeSlicing(Block):
    """Units that take turns on a device, without memory or fault isolation."""

    rename_by_default: bool = key(
        default=False,
        why="Adds .shared to the name of each shared resource that has no rename. Default "
        "false. Keeps pods that want a whole device from landing on a share.",
    )
    fail_requests_greater_than_one: bool = key(
        default=False,
        why="Refuses containers that ask for more than one share. Default false. More shares "
        "give no more of the device, so asking for them is mostly a mistake.",
    )
    replicas: Replicas | None = key(
        default=None,
        why="Units per device, 1 to 65,536, for every resource of the node. "
        "Default none. The short form of resources; write one of the two.",
    )
    resources: (
        Annotated[tuple[SharedResource, ...], Field(min_length=1, max_length=MAX_ENTRIES)] | None
    ) = key(
        default=None,
        why="What to share, one entry per resource, or several for different devices of one. "
        "Default none: nothing is shared.",
        write=f"a list of 1 to {MAX_ENTRIES} entries, each with name and replicas",
    )


class Sharing(Block):
    """Devices shared by several pods."""

    time_slicing: TimeSlicing | None = key(
        default=None,
        why="Sharing by taking turns. Default none: each device is one unit.",
        write="a mapping",
    )
    mps: Any = key(
        default=None,
        why="Sharing by NVIDIA's multi-process service. Default none. Not supported yet: refused.",
        write="nothing",
    )


class CommonConfig(Block):
    """The config of a vendor without keys of its own."""

    version: Literal["v1"] = key(
        default="v1",
        why="The format of this file. Default v1, the only one there is.",
        write="version: v1",
    )
    sharing: Sharing = key(default=Sharing(), why="How devices are shared. Default: not at all.")

    @property
    def policy(self) -> Policy:
        """Where the next share goes."""
        return Policy.DISTRIBUTED

    @property
    def health_policy(self) -> HealthPolicy:
        """Which symptoms count."""
        return HealthPolicy()

    @property
    def options(self) -> object:
        """The vendor's own frozen options, for ``Config.flags``."""
        return None
