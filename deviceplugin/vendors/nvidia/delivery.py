"""How a container is told which GPUs are its own, and given their device nodes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from deviceplugin.config.nvidia_options import DeviceIdStrategy, DeviceListStrategy, NvidiaFlags
from deviceplugin.model import ContainerEdits, Device, DeviceNode, Mount
from deviceplugin.vendors.nvidia import nodes
from deviceplugin.vendors.nvidia.discover import CDI_KINDS

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"

MOUNTED_LIST = "/var/run/nvidia-container-devices"
"""Under volume-mounts, NVIDIA's runtime reads the list from the names of mounts here."""

_CDI = (DeviceListStrategy.CDI_CRI, DeviceListStrategy.CDI_ANNOTATIONS)

_OTHER = {
    DeviceIdStrategy.UUID: DeviceIdStrategy.INDEX,
    DeviceIdStrategy.INDEX: DeviceIdStrategy.UUID,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiChoice:
    """Which names the CDI strategies hand out: a kind, and what stands behind its ``=``."""

    kind: str
    by: DeviceIdStrategy

    def name(self, device: Device) -> str:
        """Qualified name of a GPU."""
        return f"{self.kind}={_name(device, self.by)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaDelivery:
    """A ``Delivery`` under the flags of a config.

    Attributes:
        cdi: None while no spec resolves every GPU, or when CDI is not asked for.
        unmet: why nothing can be delivered now.

    """

    flags: NvidiaFlags
    cdi: CdiChoice | None = None
    unmet: str = ""

    def edits(self, devices: Sequence[Device]) -> ContainerEdits:
        """Edits for these GPUs; with CDI strategies alone, nothing but CDI names."""
        strategies = self.flags.device_list_strategies
        edits = self._cdi_edits(devices)
        if all(strategy in _CDI for strategy in strategies):
            return edits
        names = [_name(device, self.flags.device_id_strategy) for device in devices]
        # As the incumbent: where both are asked for, the mounts are the list that counts.
        if DeviceListStrategy.VOLUME_MOUNTS in strategies:
            edits |= _mounted(names)
        if DeviceListStrategy.ENVVAR in strategies:
            edits |= ContainerEdits(env={VISIBLE_DEVICES: ",".join(names)})
        return edits | ContainerEdits(device_nodes=self._device_nodes(devices))

    def _cdi_edits(self, devices: Sequence[Device]) -> ContainerEdits:
        if not self.cdi or not devices:
            return ContainerEdits()
        names = tuple(self.cdi.name(device) for device in devices)
        strategies = self.flags.device_list_strategies
        by_cri = DeviceListStrategy.CDI_CRI in strategies
        by_annotation = DeviceListStrategy.CDI_ANNOTATIONS in strategies
        return ContainerEdits(
            cdi_names=names if by_cri else (),
            annotations={self._annotation(devices): ",".join(names)} if by_annotation else {},
        )

    def _annotation(self, devices: Sequence[Device]) -> str:
        """Key of the annotation: the same for the same GPUs, another for others.

        The kubelet merges the answers for a container's resources, and of two equal keys
        one value is lost; an answer replayed after a restart must not differ.
        """
        ids = ",".join(device.id for device in devices)
        digest = hashlib.sha256(ids.encode()).hexdigest()[:16]
        return f"{self.flags.cdi_annotation_prefix}nvidia-device-plugin_{digest}"

    def _device_nodes(self, devices: Sequence[Device]) -> tuple[DeviceNode, ...]:
        if self.flags.pass_device_specs is False:
            return ()
        paths = {
            path: device
            for device in devices
            for path in _paths(device, asked_for=self.flags.pass_device_specs is True)
        }
        return tuple(self._device_node(path, device) for path, device in paths.items())

    def _device_node(self, path: str, device: Device) -> DeviceNode:
        root = self.flags.nvidia_dev_root or self.flags.nvidia_driver_root
        host_path = device.attributes.get("host_node") or f"{root.rstrip('/')}{path}"
        return DeviceNode(container_path=path, host_path=host_path)


def delivery(flags: NvidiaFlags, devices: Sequence[Device]) -> NvidiaDelivery:
    """Choose how to hand out ``devices``, all of the resource, on this node now."""
    if not any(strategy in _CDI for strategy in flags.device_list_strategies):
        return NvidiaDelivery(flags=flags)
    cdi = _choose(flags, devices)
    return NvidiaDelivery(flags=flags, cdi=cdi, unmet="" if cdi else _waiting(flags, devices))


def _choose(flags: NvidiaFlags, devices: Sequence[Device]) -> CdiChoice | None:
    """Take the first kind whose spec resolves every GPU, by the strategy's names or the others."""
    strategy = DeviceIdStrategy(flags.device_id_strategy)
    choices = [
        CdiChoice(kind=kind, by=by) for kind in CDI_KINDS for by in (strategy, _OTHER[strategy])
    ]
    return next(
        (
            choice
            for choice in choices
            if all(choice.name(device) in device.cdi_names for device in devices)
        ),
        None,
    )


def _waiting(flags: NvidiaFlags, devices: Sequence[Device]) -> str:
    by = DeviceIdStrategy(flags.device_id_strategy)
    wanted = CdiChoice(kind=CDI_KINDS[0], by=by)
    missing = [name for name in map(wanted.name, devices) if not _known(name, devices)]
    example = missing[0] if missing else wanted.name(devices[0])
    return (
        f"waiting for CDI spec: no kind of {', '.join(CDI_KINDS)} resolves every GPU"
        f" ({len(missing)} of {len(devices)} have no name, as {example});"
        " write it with: nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml"
    )


def _known(name: str, devices: Sequence[Device]) -> bool:
    return any(name in device.cdi_names for device in devices)


def _name(device: Device, strategy: str) -> str:
    return str(device.index) if strategy == DeviceIdStrategy.INDEX else device.id


def _mounted(names: Sequence[str]) -> ContainerEdits:
    return ContainerEdits(
        env={VISIBLE_DEVICES: MOUNTED_LIST},
        mounts=tuple(
            Mount(container_path=f"{MOUNTED_LIST}/{name}", host_path="/dev/null", read_only=False)
            for name in names
        ),
    )


def _paths(device: Device, *, asked_for: bool) -> tuple[str, ...]:
    """Nodes to pass: those we can see, and the GPU's own when the user insists on it."""
    if device.nodes or not asked_for:
        return device.nodes
    return (nodes.gpu_node(int(device.attributes["minor"])),)
