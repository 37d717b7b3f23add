"""What a vendor's users already write: its schema, its domain, its names for devices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from deviceplugin.config.devices import Grammar, amd_name, any_name, nvidia_name
from deviceplugin.config.environment import Further, nothing, nvidia
from deviceplugin.config.schema_amd import AmdConfig
from deviceplugin.config.schema_common import CommonConfig
from deviceplugin.config.schema_nvidia import NvidiaConfig

_COMMON: Mapping[str, str] = MappingProxyType(
    {
        "allocation.fail_requests_greater_than_one": (
            "sharing.timeSlicing.failRequestsGreaterThanOne"
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one vendor's file is read.

    Attributes:
        domain: of its resource names; put before a name that has none. "" where the vendor
            alone knows it: then each name has to have one, and any is accepted.
        schema: the keys of the file.
        device_name: what may stand in a ``devices`` list.
        resources: names that the vendor serves whatever the file says.
        variables: environment variables that have no key in the file.
        written: for fields of a Config, as ``health.overrides``, the key or variable that
            sets them.
        mps: what to say of ``sharing.mps``, which is refused.
        elsewhere: keys and flags that users of other plugins try here, and what to do instead.

    """

    domain: str = ""
    schema: type[CommonConfig] = CommonConfig
    device_name: Grammar = any_name
    resources: frozenset[str] = frozenset()
    variables: Callable[[Mapping[str, str]], Further] = nothing
    written: Mapping[str, str] = field(default_factory=lambda: _COMMON)
    mps: str = "MPS is not supported yet"
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    @property
    def context(self) -> dict[str, object]:
        """What the schema's own checks need to know of the vendor."""
        return {"domain": self.domain, "grammar": self.device_name}


_NVIDIA = {
    **_COMMON,
    "allocation.policy": "flags.plugin.sharedDevicesAllocationPolicy",
    "health.overrides": "health.xids",
    "health.disabled": "DP_DISABLE_HEALTHCHECKS",
    "health.enabled": "DP_ENABLE_HEALTHCHECKS",
    "flags.device_list_strategies": "flags.plugin.deviceListStrategy",
    "flags.device_id_strategy": "flags.plugin.deviceIDStrategy",
    "flags.pass_device_specs": "flags.plugin.passDeviceSpecs",
    "flags.nvidia_driver_root": "flags.nvidiaDriverRoot",
    "flags.nvidia_dev_root": "flags.nvidiaDevRoot",
    "flags.container_driver_root": "flags.plugin.containerDriverRoot",
    "flags.cdi_annotation_prefix": "flags.plugin.cdiAnnotationPrefix",
    "flags.restart_on_driver_mismatch": "flags.restartOnDriverMismatch",
}

_AMD = {
    **_COMMON,
    "allocation.policy": "flags.plugin.sharedDevicesAllocationPolicy",
    "health.overrides": "health.actions",
    "flags.partition_strategy": "flags.partitionStrategy",
    "flags.device_list_strategies": "flags.plugin.deviceListStrategy",
    "flags.cdi_annotation_prefix": "flags.plugin.cdiAnnotationPrefix",
    "flags.addresses_env": "flags.plugin.addressesEnv",
    "flags.exporter_socket": "health.exporterSocket",
    "flags.kfd_events": "health.kfdEvents",
    "flags.amdsmi": "health.amdsmi",
    "flags.uncorrectable_errors": "health.uncorrectableErrors",
    "flags.retired_pages": "health.retiredPages",
}

_STRATEGY = "write flags.partitionStrategy: single or mixed"

_DIALECTS = {
    "nvidia": Dialect(
        domain="nvidia.com",
        schema=NvidiaConfig,
        device_name=nvidia_name,
        resources=frozenset({"nvidia.com/gpu"}),
        variables=nvidia,
        written=MappingProxyType(_NVIDIA),
    ),
    "amd": Dialect(
        domain="amd.com",
        schema=AmdConfig,
        device_name=amd_name,
        resources=frozenset({"amd.com/gpu"}),
        written=MappingProxyType(_AMD),
        mps="MPS is NVIDIA's alone, AMD GPUs have no such thing",
        elsewhere=MappingProxyType(
            {
                "resource_naming_strategy": _STRATEGY,
                "resourceNamingStrategy": _STRATEGY,
                "migStrategy": _STRATEGY,
                "pulse": "remove it: health is always watched, see health in configs/amd.yaml",
                "gpu-config-profiles": "remove it: partitions are set by AMD's config manager",
            }
        ),
    ),
}


def of(vendor: str) -> Dialect:
    """Find a vendor's dialect; one without its own has ``version`` and ``sharing``.

    A name does not tell the domain: cards of ``toy`` may be ``toy.example.com/card``.
    """
    return _DIALECTS.get(vendor) or Dialect()
