"""Where a simulated node keeps its things: one temporary folder, and the config to edit."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deviceplugin.errors import DevicePluginError
from deviceplugin.simulation.machine import Machine, find
from deviceplugin.simulation.machine_file import demo_text, load

_LONGEST_TEMP = 30  # characters: sockets below it must fit the 107 bytes of an address

_NVIDIA = """\
# Edit and save this file: the node follows at once, nothing restarts.
version: v1
sharing:
  timeSlicing:
    resources:
      - name: nvidia.com/gpu
        replicas: 1 # write 4, for four shares of each GPU
        # rename: nvidia.com/gpu.shared
        # devices: 2 # share only the first two
"""
_AMD = """\
# Edit and save this file: the node follows at once, nothing restarts.
version: v1
flags:
  partitionStrategy: single # write mixed, for a resource of each kind of partition
sharing:
  timeSlicing:
    resources:
      - name: amd.com/gpu
        replicas: 1 # write 4, for four shares of each GPU or partition
        # rename: amd.com/gpu.shared
        # devices: 2 # share only the first two
"""
EXAMPLES = {"nvidia": _NVIDIA, "amd": _AMD}
"""The configs in a fresh folder: one unit for each device, as without any config."""


class ConfigDirError(DevicePluginError):
    """The config folder is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """A node's folders, all made.

    Attributes:
        kubelet: the kubelet's root.
        machine: file of the machine, its demo's timeline included.
        configs: the config file of each vendor; in a folder of the user's own they need not be
            there.

    """

    kubelet: Path
    state: Path
    machine: Path
    configs: Mapping[str, Path]


@contextmanager
def folders(machine: str, config_dir: str | None) -> Iterator[tuple[Folders, Machine]]:
    """Make the folders of a node; they are removed in the end, all but ``config_dir``.

    Raises:
        DevicePluginError: the machine is not there or wrong, or ``config_dir`` is not there.

    """
    source = find(machine)
    loaded = load(source)
    if config_dir is not None and not Path(config_dir).is_dir():
        raise ConfigDirError(
            f"--config-dir {config_dir}: no such folder; make it, or leave the flag out"
        )
    short = "/tmp" if len(tempfile.gettempdir()) > _LONGEST_TEMP else None  # noqa: S108 - a fresh folder below it
    with tempfile.TemporaryDirectory(prefix="dp-", dir=short) as name:
        made = _make(Path(name), config_dir, loaded.vendors)
        text = demo_text(source.read_text(encoding="utf-8"), loaded.name)
        made.machine.write_text(text, encoding="utf-8")
        yield made, loaded


def _make(root: Path, config_dir: str | None, vendors: Sequence[str]) -> Folders:
    config = Path(config_dir).resolve() if config_dir else root / "config"
    made = Folders(
        kubelet=root / "kubelet",
        state=root / "state",
        machine=root / "machine.yaml",
        configs={vendor: config / f"{vendor}.yaml" for vendor in vendors},
    )
    # The daemon may look before the kubelet has made it.
    (made.kubelet / "device-plugins").mkdir(parents=True)
    made.state.mkdir()
    if not config_dir:
        config.mkdir()
        for vendor, path in made.configs.items():
            path.write_text(EXAMPLES[vendor], encoding="utf-8")
    return made
