"""NVIDIA's config: a superset of the v1 file of NVIDIA's own plugin."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from deviceplugin.config.nvidia_options import NvidiaFlags
from deviceplugin.config.rules import HealthPolicy
from deviceplugin.config.schema_common import (
    AnnotationPrefix,
    Block,
    CommonConfig,
    Directory,
    SharePolicy,
    key,
    refusal,
    strategies_form,
)
from deviceplugin.model import Action, Policy


def _only(*, default: object, remedy: str) -> AfterValidator:
    """Accept the default alone: anything else would change behaviour and cannot."""

    def check(value: Any) -> Any:
        if value != default:
            raise refusal(value, remedy)
        return value

    return AfterValidator(check)


def _xid(value: object) -> str:
    text = str(value)
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text, re.ASCII):
        raise refusal(value, "write the number of an XID, as in 79: ignore")
    return text


MigStrategy = Annotated[
    Literal["none", "single", "mixed"],
    _only(default="none", remedy="MIG strategies are not supported yet: write none"),
]
Strategy = Literal["envvar", "volume-mounts", "cdi-annotations", "cdi-cri"]
Strategies = Annotated[
    Annotated[Strategy, Tag("one")]
    | Annotated[Annotated[tuple[Strategy, ...], Field(min_length=1)], Tag("list")],
    Discriminator(strategies_form),
]
Xid = Annotated[str, BeforeValidator(_xid)]
XidAction = Literal["ignore", "event", "recover", "reset", "reboot"]


def _off(what: str) -> AfterValidator:
    return _only(default=False, remedy=f"{what} devices are not handed out here: write false")


Gdrcopy = Annotated[bool, _off("GDRCopy")]
Gds = Annotated[bool, _off("GPUDirect Storage")]
Mofed = Annotated[bool, _off("InfiniBand")]

_STRATEGY = "envvar, volume-mounts, cdi-annotations, cdi-cri, or a list of them"
_OFF = "false is the only value that this plugin has"


class Plugin(Block):
    """How GPUs are handed to containers."""

    pass_device_specs: bool | None = key(
        default=None,
        why="Hands out the device nodes themselves, beside what deviceListStrategy does. "
        "Default: when they are visible to this process. The static CPU manager needs it.",
        env=("PASS_DEVICE_SPECS",),
    )
    device_list_strategy: Strategies = key(
        default="envvar",
        why="How a container learns which GPUs are its own: envvar (the default), "
        "volume-mounts, cdi-annotations, cdi-cri, or a list of them. Must fit the container"
        " runtime.",
        env=("DEVICE_LIST_STRATEGY",),
        write=_STRATEGY,
    )
    device_id_strategy: Literal["uuid", "index"] = key(
        default="uuid",
        why="What names a GPU to the runtime: uuid (the default) or index. Indexes may change "
        "at a reboot.",
        alias="deviceIDStrategy",
        env=("DEVICE_ID_STRATEGY",),
    )
    cdi_annotation_prefix: AnnotationPrefix = key(
        default="cdi.k8s.io/",
        why="In front of the annotation's name under cdi-annotations. Default cdi.k8s.io/. Only"
        " runtimes set up for another one need it.",
        env=("CDI_ANNOTATION_PREFIX",),
    )
    nvidia_ctk_path: str = key(
        default="/usr/bin/nvidia-ctk",
        why="The hook program for generated CDI specs.",
        alias="nvidiaCTKPath",
        env=("NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"),
        no_effect="CDI specs are used as they are found and none is generated",
    )
    container_driver_root: Directory = key(
        default="/driver-root",
        why="The driver's folder as this process sees it; NVML is looked up there first. "
        "Default /driver-root.",
        env=("DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
    )
    shared_devices_allocation_policy: SharePolicy = key(
        default="distributed",
        why="Where the next share goes: distributed (the default), to the GPU with the fewest "
        "shares taken, or packed, to the one with the most.",
        env=("SHARED_DEVICES_ALLOCATION_POLICY",),
    )


class Gfd(Block):
    """Settings of NVIDIA's labeller, which reads the same file."""

    oneshot: bool = key(default=False, why="Label once and exit. Default false.")
    no_timestamp: bool = key(default=False, why="Leave the timestamp label out. Default false.")
    sleep_interval: str | int = key(
        default="60s", why="Time between labellings. Default 60s.", write='"60s"'
    )
    output_file: str = key(default="", why="Where labels are written. Default: its own.")
    machine_type_file: str = key(
        default="", why="Where the machine type is read. Default: its own."
    )


class Flags(Block):
    """Flags of the plugin, by the names they have in NVIDIA's file."""

    mig_strategy: MigStrategy = key(
        default="none",
        why="How MIG partitions are exposed. Default none; single and mixed are not supported yet.",
        env=("MIG_STRATEGY",),
        write="none",
    )
    fail_on_init_error: bool = key(
        default=True,
        why="Exit when the driver cannot be used. Default true in NVIDIA's plugin.",
        env=("FAIL_ON_INIT_ERROR",),
        no_effect="a missing driver is waited for, and served when it appears",
    )
    nvidia_driver_root: Directory = key(
        default="/",
        why="The driver's folder on the host. Default /. Set it where the driver runs from a "
        "container.",
        env=("NVIDIA_DRIVER_ROOT",),
    )
    nvidia_dev_root: Directory | None = key(
        default=None,
        why="The host folder that device nodes are under. Default: nvidiaDriverRoot.",
        env=("NVIDIA_DEV_ROOT",),
    )
    gdrcopy_enabled: Gdrcopy = key(
        default=False,
        why="Hand out GDRCopy devices. Default false; true is refused.",
        env=("GDRCOPY_ENABLED",),
        no_effect=_OFF,
    )
    gds_enabled: Gds = key(
        default=False,
        why="Hand out GPUDirect Storage devices. Default false; true is refused.",
        env=("GDS_ENABLED",),
        no_effect=_OFF,
    )
    mofed_enabled: Mofed = key(
        default=False,
        why="Hand out InfiniBand devices. Default false; true is refused.",
        env=("MOFED_ENABLED",),
        no_effect=_OFF,
    )
    use_node_feature_api: bool = key(
        default=False,
        why="How the labeller publishes labels. Default false.",
        alias="useNodeFeatureAPI",
        env=("USE_NODE_FEATURE_API",),
        no_effect="this plugin writes no node labels",
    )
    device_discovery_strategy: Literal["auto", "nvml", "tegra", "vfio"] = key(
        default="auto",
        why="How GPUs are found. Default auto.",
        env=("DEVICE_DISCOVERY_STRATEGY",),
        no_effect="GPUs are always found through NVML",
    )
    mps_root: str = key(
        default="",
        why="The host folder of the MPS daemon. Default none.",
        env=("MPS_ROOT",),
        no_effect="MPS sharing is not supported yet",
    )
    restart_on_driver_mismatch: bool = key(
        default=False,
        why="Fail the liveness probe when the loaded driver no longer fits the NVML library of "
        "this container. Default false: keep the last verdicts and say so. An injected "
        "library changes only with the container.",
    )
    plugin: Plugin = key(default=Plugin(), why="How GPUs are handed to containers.")
    gfd: Gfd = key(
        default=Gfd(),
        why="Settings of NVIDIA's labeller.",
        no_effect="this plugin writes no node labels",
    )


class ResourcePattern(Block):
    """A name for GPUs whose product matches."""

    pattern: str = key(why="A glob over product names. Must be written.")
    name: str = key(why="The resource's name. Must be written.")


class Resources(Block):
    """NVIDIA's naming table, which its own plugin ignores too."""

    gpus: tuple[ResourcePattern, ...] = key(default=(), why="Names for whole GPUs. Default none.")
    mig: tuple[ResourcePattern, ...] = key(default=(), why="Names for MIG profiles. Default none.")


class Imex(Block):
    """IMEX channels for multi-node NVLink."""

    channel_ids: Annotated[
        tuple[int, ...], _only(default=(), remedy="IMEX channels are not supported: write []")
    ] = key(
        default=(),
        why="Channels that each container gets. Default none; others are refused.",
        alias="channelIDs",
        env=("IMEX_CHANNEL_IDS",),
        no_effect="no IMEX channel is handed out",
        write="[]",
    )
    required: bool = key(
        default=False,
        why="Fail when a channel is missing. Default false.",
        env=("IMEX_REQUIRED",),
        no_effect="no IMEX channel is handed out",
    )


class Health(Block):
    """Which faults of a GPU take it away from pods."""

    xids: dict[Xid, XidAction] = key(
        default={},
        why="What an XID, by number, does: ignore; event (logged and counted only); or "
        "Unhealthy until the GPU is seen good (recover), was reset (reset), or the node "
        "rebooted (reboot). Default: this plugin's own table. For XIDs that mean something "
        "else on your machines.",
        write="a mapping such as 79: ignore; actions are ignore, event, recover, reset, reboot",
    )


class NvidiaConfig(CommonConfig):
    """The config of ``deviceplugin run nvidia``."""

    flags: Flags = key(default=Flags(), why="Flags of the plugin. Default: each at its default.")
    resources: Resources = key(
        default=Resources(),
        why="Names for resources by product.",
        no_effect="resources keep their names; use rename under sharing",
    )
    imex: Imex = key(default=Imex(), why="IMEX channels. Default: none.")
    health: Health = key(
        default=Health(), why="Which faults count. Default: this plugin's own table."
    )

    @property
    def policy(self) -> Policy:
        """Where the next share goes."""
        return Policy(self.flags.plugin.shared_devices_allocation_policy)

    @property
    def health_policy(self) -> HealthPolicy:
        """Which XIDs count."""
        overrides = {f"xid-{xid}": Action(action) for xid, action in self.health.xids.items()}
        return HealthPolicy(overrides=overrides)

    @property
    def options(self) -> NvidiaFlags:
        """What ``vendors/nvidia`` reads."""
        flags, plugin = self.flags, self.flags.plugin
        strategies = plugin.device_list_strategy
        listed = strategies if isinstance(strategies, tuple) else (strategies,)
        return NvidiaFlags(
            device_list_strategies=tuple(dict.fromkeys(listed)),
            device_id_strategy=plugin.device_id_strategy,
            pass_device_specs=plugin.pass_device_specs,
            nvidia_driver_root=flags.nvidia_driver_root,
            nvidia_dev_root=flags.nvidia_dev_root,
            container_driver_root=plugin.container_driver_root,
            cdi_annotation_prefix=plugin.cdi_annotation_prefix,
            restart_on_driver_mismatch=flags.restart_on_driver_mismatch,
        )
