"""What a vendor's users already write: its schema, its domain, its names for devices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deviceplugin.config.devices import Grammar, any_name, nvidia_name
from deviceplugin.config.environment import Further, nothing, nvidia
from deviceplugin.config.schema_common import CommonConfig
from deviceplugin.config.schema_nvidia import NvidiaConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one vendor's file is read.

    Attributes:
        domain: of its resource names; put before a name that has none.
        schema: the keys of the file.
        device_name: what may stand in a ``devices`` list.
        resources: names that the vendor serves whatever the file says.
        variables: environment variables that have no key in the file.

    """

    domain: str
    schema: type[CommonConfig] = CommonConfig
    device_name: Grammar = any_name
    resources: frozenset[str] = frozenset()
    variables: Callable[[Mapping[str, str]], Further] = nothing

    @property
    def context(self) -> dict[str, object]:
        """What the schema's own checks need to know of the vendor."""
        return {"domain": self.domain, "grammar": self.device_name}


_DIALECTS = {
    "nvidia": Dialect(
        domain="nvidia.com",
        schema=NvidiaConfig,
        device_name=nvidia_name,
        resources=frozenset({"nvidia.com/gpu"}),
        variables=nvidia,
    ),
}


def of(vendor: str) -> Dialect:
    """Find a vendor's dialect; one without its own has ``version`` and ``sharing``."""
    return _DIALECTS.get(vendor) or Dialect(domain=f"{vendor}.com")
