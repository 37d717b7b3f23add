"""AMD's config: the keys of NVIDIA's file where they mean the same, and AMD's own."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from deviceplugin.config.amd_options import EXPORTER_SOCKET, AmdFlags
from deviceplugin.config.rules import HealthPolicy
from deviceplugin.config.schema_common import (
    AnnotationPrefix,
    Block,
    CommonConfig,
    OptionalPath,
    SharePolicy,
    key,
    refusal,
    strategies_form,
)
from deviceplugin.model import Action, Policy

KINDS = (
    "lost",
    "driver-unbound",
    "kfd-node-missing",
    "render-node-missing",
    "bus-unreachable",
    "retired-pages",
    "exporter-unhealthy",
    "resetting",
    "vm-fault",
    "thermal-throttle",
)
"""Kinds of faults of a GPU, beside ``ras-BLOCK`` for the errors of each block."""

_RAS = re.compile(r"ras-[a-z0-9_]{1,32}", re.ASCII)


def _kind(value: object) -> str:
    text = str(value)
    if text not in KINDS and not _RAS.fullmatch(text):
        raise refusal(value, f"write one of {', '.join(KINDS)}, or ras-BLOCK such as ras-umc")
    return text


Kind = Annotated[str, BeforeValidator(_kind)]
FaultAction = Literal["ignore", "event", "recover", "reset", "reboot"]
Strategy = Literal["device-nodes", "cdi-cri", "cdi-annotations"]
Strategies = Annotated[
    Annotated[Strategy, Tag("one")]
    | Annotated[Annotated[tuple[Strategy, ...], Field(min_length=1)], Tag("list")],
    Discriminator(strategies_form),
]
Count = Annotated[int, Field(ge=0, le=1_000_000)]


class Plugin(Block):
    """How GPUs are handed to containers."""

    device_list_strategy: Strategies = key(
        default="device-nodes",
        why="How a container gets its GPUs: device-nodes (the default), /dev/kfd and the GPUs' own"
        " nodes; cdi-cri or cdi-annotations, names that a CDI spec of the node resolves; or a"
        " list of them.",
        write="device-nodes, cdi-cri, cdi-annotations, or a list of them",
    )
    cdi_annotation_prefix: AnnotationPrefix = key(
        default="cdi.k8s.io/",
        why="In front of the annotation's name under cdi-annotations. Default cdi.k8s.io/. Only"
        " runtimes set up for another one need it.",
    )
    addresses_env: bool = key(
        default=False,
        why="Sets PCIDEVICE_AMD_COM_GPU (or the resource's name in its place) to the PCI addresses"
        " of the container's GPUs. Default false. For programs that must know which GPU they"
        " got: inside the container indexes start at 0 again.",
    )
    shared_devices_allocation_policy: SharePolicy = key(
        default="distributed",
        why="Where the next share goes: distributed (the default), to the GPU with the fewest "
        "shares taken, or packed, to the one with the most.",
    )


class Flags(Block):
    """Flags of the plugin."""

    partition_strategy: Literal["single", "mixed"] = key(
        default="single",
        why="Which resources partitioned GPUs count under. single (the default): all under"
        " amd.com/gpu, and on a node with unlike partitions only the kind that the most GPUs"
        " have is given out. mixed: each kind under its own name, such as amd.com/cpx_nps4.",
    )
    plugin: Plugin = key(default=Plugin(), why="How GPUs are handed to containers.")


class Health(Block):
    """Which faults of a GPU take it away from pods, and whom to ask."""

    uncorrectable_errors: Count = key(
        default=0,
        why="A GPU is Unhealthy when one of its blocks has counted more uncorrectable memory errors"
        " than this since this daemon first saw it. Default 0: the first one counts.",
    )
    retired_pages: Count = key(
        default=0,
        why="A GPU is Unhealthy from so many retired memory pages on. Default 0: never, since a"
        " retired page is not used any more.",
    )
    exporter_socket: OptionalPath = key(
        default=EXPORTER_SOCKET,
        why="Socket of AMD's metrics exporter, whose verdict on each GPU counts, too. Default:"
        " where its DaemonSet puts it; nothing happens while it is not there. Empty: never asked.",
    )
    kfd_events: bool = key(
        default=False,
        why="Listens for GPU resets on /dev/kfd. Default false: it needs access to that node, which"
        " an unprivileged pod has not.",
    )
    amdsmi: bool = key(
        default=False,
        why="Asks AMD's management library, in a process of its own, for errors that sysfs does not"
        " show. Default false: it needs the library, and access to the GPUs.",
    )
    actions: dict[Kind, FaultAction] = key(
        default={},
        why="What a kind of fault does: ignore; event (logged and counted only); or Unhealthy until"
        " the GPU is seen good (recover), was reset (reset), or the node rebooted (reboot)."
        " Default: this plugin's own table.",
        write="a mapping such as ras-umc: reboot;"
        " actions are ignore, event, recover, reset, reboot",
    )


class AmdConfig(CommonConfig):
    """The config of ``deviceplugin run amd``."""

    flags: Flags = key(default=Flags(), why="Flags of the plugin. Default: each at its default.")
    health: Health = key(
        default=Health(), why="Which faults count. Default: this plugin's own table."
    )

    @property
    def policy(self) -> Policy:
        """Where the next share goes."""
        return Policy(self.flags.plugin.shared_devices_allocation_policy)

    @property
    def health_policy(self) -> HealthPolicy:
        """Which kinds of faults count."""
        actions = {kind: Action(action) for kind, action in self.health.actions.items()}
        return HealthPolicy(overrides=actions)

    @property
    def options(self) -> AmdFlags:
        """What ``vendors/amd`` reads."""
        plugin, health = self.flags.plugin, self.health
        strategies = plugin.device_list_strategy
        listed = strategies if isinstance(strategies, tuple) else (strategies,)
        return AmdFlags(
            partition_strategy=self.flags.partition_strategy,
            device_list_strategies=tuple(dict.fromkeys(listed)),
            cdi_annotation_prefix=plugin.cdi_annotation_prefix,
            addresses_env=plugin.addresses_env,
            exporter_socket=health.exporter_socket,
            kfd_events=health.kfd_events,
            amdsmi=health.amdsmi,
            uncorrectable_errors=health.uncorrectable_errors,
            retired_pages=health.retired_pages,
        )
