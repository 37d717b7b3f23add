"""AMD's GPUs as the PCI bus shows them: what is there, what amdgpu drives, how it is divided."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin import sysfs
from deviceplugin.pci import Kind, PciBus
from deviceplugin.vendors.amd import drm

GPUS = Kind(
    vendor="0x1002",
    # VGA, 3D and other display controllers; processing accelerators, which Instinct cards are.
    classes=("0x0300", "0x0302", "0x0380", "0x1200"),
    # gim gives virtual functions to guests, radeon drives cards from before amdgpu.
    others=frozenset({"vfio-pci", "pci-stub", "gim", "radeon"}),
)

_ADDRESS = re.compile(
    r"(?P<domain>[0-9a-f]{4,8}):(?P<bus>[0-9a-f]{2}):(?P<device>[0-9a-f]{2})\.(?P<function>[0-7])"
)
_BYTES_PER_MIB = 1 << 20

MODELS = {
    "0x66a1": "AMD Instinct MI60",
    "0x738c": "AMD Instinct MI100",
    "0x7408": "AMD Instinct MI250X",
    "0x740c": "AMD Instinct MI250X",
    "0x740f": "AMD Instinct MI210",
    "0x74a0": "AMD Instinct MI300A",
    "0x74a1": "AMD Instinct MI300X",
    "0x74a2": "AMD Instinct MI308X",
    "0x74a5": "AMD Instinct MI325X",
    "0x74b5": "AMD Instinct MI300X VF",
    "0x75a0": "AMD Instinct MI350X",
    "0x75a3": "AMD Instinct MI355X",
}
"""Names by PCI device id, for drivers without ``product_name`` (guests, older kernels)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a device sits; the function apart, as KFD has no function in partitioned mode."""

    domain: int
    bus: int
    device: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A PCI function that amdgpu drives.

    Attributes:
        slot, function: the address in numbers.
        kind: PCI device id, ``0x74a1``.
        compute, memory: partition modes in lower case, ``cpx`` and ``nps4``; "" where the
            GPU has none.
        numa_node: a node that exists and has CPUs; None for unknown.

    """

    address: str
    slot: Slot
    function: int
    minors: drm.Minors
    kind: str = ""
    name: str = ""
    compute: str = ""
    memory: str = ""
    numa_node: int | None = None
    memory_mib: int | None = None
    unique_id: str = ""

    @property
    def layout(self) -> str:
        """How the GPU is divided, ``cpx_nps4``; "" where it cannot be."""
        return "_".join(filter(None, (self.compute, self.memory)))

    @property
    def is_whole(self) -> bool:
        """Whether it is one unit by what the driver says of its mode."""
        return self.compute in ("", "spx")


@dataclass(slots=True, kw_only=True)
class Functions:
    """The PCI functions that amdgpu drives; for the scan thread."""

    root: Path
    bus: PciBus = field(init=False)

    def __post_init__(self) -> None:
        self.bus = PciBus(root=self.root, kind=GPUS)

    def driven(self) -> tuple[str, ...]:
        """Addresses of the functions that amdgpu drives, in order."""
        folders = ("bus/pci/drivers/amdgpu", "module/amdgpu/drivers/pci:amdgpu")
        names = {name for folder in folders for name in sysfs.entries(self.root / folder)}
        return tuple(sorted(name for name in names if self._is_amd(name)))

    def function(self, address: str, modes: tuple[str, str]) -> Function | None:
        """Read one function; None when it is gone. ``modes`` are its partition modes."""
        match = _ADDRESS.fullmatch(address)
        folder = self.bus.devices / address
        if match is None or not folder.is_dir():
            return None
        kind = sysfs.text(folder / "device")
        memory = sysfs.number(folder / "mem_info_vram_total") or 0
        return Function(
            address=address,
            slot=Slot(
                domain=int(match["domain"], 16),
                bus=int(match["bus"], 16),
                device=int(match["device"], 16),
            ),
            function=int(match["function"]),
            kind=kind,
            name=_name(sysfs.text(folder / "product_name"), kind),
            compute=modes[0],
            memory=modes[1],
            minors=drm.minors(folder),
            numa_node=self.bus.numa_node(address),
            memory_mib=memory // _BYTES_PER_MIB or None if memory > 0 else None,
            unique_id=_word(sysfs.text(folder / "unique_id")),
        )

    def modes(self, address: str) -> tuple[str, str]:
        """Compute and memory partition mode, in lower case. Reading them may wake the GPU."""
        folder = self.bus.devices / address
        names = ("current_compute_partition", "current_memory_partition")
        compute, memory = (_word(sysfs.text(folder / name)).lower() for name in names)
        return compute, memory if compute else ""

    def _is_amd(self, address: str) -> bool:
        return bool(_ADDRESS.fullmatch(address)) and (
            sysfs.text(self.bus.devices / address / "vendor") in (GPUS.vendor, "")
        )


def slots(functions: Iterable[Function]) -> dict[Slot, list[Function]]:
    """Functions by where they sit."""
    found: dict[Slot, list[Function]] = {}
    for function in functions:
        found.setdefault(function.slot, []).append(function)
    return found


_LONGEST_WORD = 32
_LONGEST_NAME = 100


def _word(text: str) -> str:
    # A mode or an id is one short word; anything else is damage, and no part of a name.
    plain = text.isascii() and text.isalnum() and len(text) <= _LONGEST_WORD
    return text if plain else ""


def _name(product: str, kind: str) -> str:
    if product and product.isprintable() and len(product) <= _LONGEST_NAME:
        return product
    return MODELS.get(kind) or f"AMD GPU {_word(kind)}".strip()
