"""The container runtime, with a second handler under the name of NVIDIA's."""

import json
import os
from pathlib import Path

from tests.cluster.node import processes
from tests.cluster.node.paths import (
    BRIDGE,
    CONTAINERD,
    CONTAINERD_SOCKET,
    PAUSE_IMAGE,
    POD_SUBNET,
    STATE,
)
from tests.cluster.node.shell import ClusterError, run, succeeds

_PLUGIN_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_RUNC = """\
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}]
  runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.{name}.options]
  SystemdCgroup = false
  Root = '{state}/runc'
"""
_CONFIG = """\
version = 3
root = '{state}/containerd-root'
state = '{state}/containerd-state'
[grpc]
  address = '{socket}'
[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE no oom_score_adj below our own can be set.
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  conf_dir = '{cni}'
  bin_dirs = ['{cni_plugins}']
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{pause}'
# Both would make folders outside of ours.
[plugins.'io.containerd.nri.v1.nri']
  disable = true
[plugins.'io.containerd.internal.v1.opt']
  path = '{state}/opt'
"""


def start() -> None:
    """Start containerd, and wait until it answers."""
    config = STATE / "containerd.toml"
    text = _CONFIG.format(
        state=STATE,
        socket=CONTAINERD_SOCKET,
        cni=_write_network(),
        cni_plugins=_network_plugins(),
        pause=PAUSE_IMAGE,
    )
    # runc under NVIDIA's name: what matters to the manifests is that the handler is there.
    handlers = [_RUNC.format(name=name, state=STATE) for name in ("runc", "nvidia")]
    config.write_text("".join([text, *handlers]))
    # Where containerd finds its shim and runc.
    path = f"{CONTAINERD}:{os.environ['PATH']}"
    processes.start("containerd", CONTAINERD / "containerd", "--config", config, path=path)
    wait()


def wait() -> None:
    """Wait until it answers."""
    processes.wait_alive("containerd", lambda: succeeds(*ctr("version")), "containerd")


def ctr(*words: str | Path) -> list[str | Path]:
    """A command of containerd's client, in the kubelet's namespace."""
    return [CONTAINERD / "ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", *words]


def load(archive: Path) -> None:
    """Load an image archive under the names that it carries."""
    run(*ctr("images", "import", archive))


def _network_plugins() -> Path:
    for folder in _PLUGIN_FOLDERS:
        if (folder / "bridge").exists():
            return folder
    raise ClusterError("no CNI plugins: run `make cluster-packages`")


def _write_network() -> Path:
    folder = STATE / "cni"
    folder.mkdir()
    addresses = {
        "type": "host-local",
        "dataDir": str(STATE / "ipam"),
        "ranges": [[{"subnet": POD_SUBNET}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    text = {"cniVersion": "0.4.0", "name": BRIDGE, "plugins": [bridge]}
    (folder / f"10-{BRIDGE}.conflist").write_text(json.dumps(text))
    return folder
