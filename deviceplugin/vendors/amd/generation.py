"""Notices that the hardware is not as it was scanned: a repartition, a module that goes."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from deviceplugin import sysfs
from deviceplugin.events import Emit, HardwareChanged

_TOPOLOGY = "class/kfd/kfd/topology"
_WATCHED = ("bus/pci/drivers/amdgpu", "module/amdgpu/drivers/pci:amdgpu", "class/drm")


@dataclass(slots=True, kw_only=True)
class GenerationSource:
    """A ``Source``: looks at KFD's generation and the driver's folders, reads no GPU.

    The kernel raises the generation with each change of the topology. Partition modes are
    not read here: that may wake a GPU.
    """

    root: Path
    seconds: float
    clock: Callable[[], float] = time.monotonic
    name: str = "amd-changes"
    _seen: object = field(default=None)

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Look until ``stop`` is set."""
        self._seen = self._look()
        while not stop.wait(self.seconds):
            now = self._look()
            if now != self._seen:
                self._seen = now
                emit(HardwareChanged(what="KFD's topology or amdgpu's devices", at=self.clock()))

    def _look(self) -> object:
        generation = sysfs.text(self.root / _TOPOLOGY / "generation_id")
        nodes = sysfs.entries(self.root / _TOPOLOGY / "nodes")
        return generation, nodes, [sysfs.entries(self.root / folder) for folder in _WATCHED]
