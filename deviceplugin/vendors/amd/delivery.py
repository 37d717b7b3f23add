"""How a container is given its GPUs: device nodes, or names that CDI resolves."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deviceplugin.config.amd_options import AmdFlags, DeviceListStrategy
from deviceplugin.model import ContainerEdits, Device, DeviceNode, ResourceName

_GENERATE = "amd-ctk cdi generate --output=/var/run/cdi/amd.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdDelivery:
    """A ``Delivery`` under the flags of a config.

    Attributes:
        resource: the name the devices are listed under; it names the variable.
        unmet: why nothing can be delivered now.

    """

    flags: AmdFlags
    resource: ResourceName
    unmet: str = ""

    def edits(self, devices: Sequence[Device]) -> ContainerEdits:
        """Edits for these GPUs.

        Without any device that is here, nothing: /dev/kfd alone lets a program start and
        find no GPU, and says to nobody why.
        """
        if not devices:
            return ContainerEdits()
        edits = self._addresses(devices)
        for strategy in self.flags.device_list_strategies:
            edits |= self._by(strategy, devices)
        return edits

    def _by(self, strategy: str, devices: Sequence[Device]) -> ContainerEdits:
        names = tuple(device.cdi_names[0] for device in devices if device.cdi_names)
        match strategy:
            case DeviceListStrategy.CDI_CRI:
                return ContainerEdits(cdi_names=names)
            case DeviceListStrategy.CDI_ANNOTATIONS:
                value = ",".join(names)
                # One key for each set of devices: two resources in one container keep both.
                digest = hashlib.sha256(value.encode()).hexdigest()[:16]
                key = f"{self.flags.cdi_annotation_prefix}amd-device-plugin_{digest}"
                return ContainerEdits(annotations={key: value} if names else {})
            case _:
                return ContainerEdits(device_nodes=tuple(_nodes(devices)))

    def _addresses(self, devices: Sequence[Device]) -> ContainerEdits:
        if not self.flags.addresses_env:
            return ContainerEdits()
        addresses = dict.fromkeys(device.pci_address or device.physical for device in devices)
        return ContainerEdits(env={variable(self.resource): ",".join(addresses)})


def delivery(flags: AmdFlags, resource: ResourceName, devices: Sequence[Device]) -> AmdDelivery:
    """Choose how to hand these GPUs out. Pure."""
    uses_cdi = any(each != DeviceListStrategy.DEVICE_NODES for each in flags.device_list_strategies)
    unresolved = [device.id for device in devices if not device.cdi_names] if uses_cdi else []
    unmet = ""
    if unresolved:
        unmet = (
            f"waiting for CDI spec: none has a device with the render node of {unresolved[0]}"
            f" alone ({len(unresolved)} of {len(devices)} have no name);"
            f" write it with: {_GENERATE}"
        )
    return AmdDelivery(flags=flags, resource=resource, unmet=unmet)


def variable(resource: str) -> str:
    """Name of the variable with the PCI addresses, as SR-IOV's plugin forms it."""
    return "PCIDEVICE_" + re.sub(r"[^A-Za-z0-9]", "_", resource).upper()


def _nodes(devices: Sequence[Device]) -> Iterator[DeviceNode]:
    paths = dict.fromkeys(
        (node, device.attributes.get("host_node") or node)
        for device in devices
        for node in device.nodes
    )
    for node, host in paths:
        yield DeviceNode(container_path=node, host_path=host)
