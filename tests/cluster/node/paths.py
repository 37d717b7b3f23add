"""Where the test cluster has its things, and what it is made of."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[3]
RELEASE = os.environ.get("CLUSTER_RELEASE", "1.36.3")
CONTAINERD_RELEASE = "2.4.2"

# Kept between runs.
BUILD = Path(os.environ.get("CLUSTER_BUILD", ROOT / "build" / "cluster"))
PROGRAMS = BUILD / RELEASE
CONTAINERD = BUILD / f"containerd-{CONTAINERD_RELEASE}"
IMAGES = BUILD / "images"

# One cluster's life. Short: sockets lie in it. Fixed: `down` finds what a killed run left.
STATE = Path("/tmp/deviceplugin-cluster")
LOGS = STATE / "logs"
KUBECONFIG = STATE / "admin.kubeconfig"
CONTAINERD_SOCKET = STATE / "containerd.sock"

# The kubelet serves device plugins below this, whatever its root folder is.
KUBELET_ROOT = Path("/var/lib/kubelet")
DEVICE_PLUGINS = KUBELET_ROOT / "device-plugins"

# The manifests' hostPath for the daemon's state.
DAEMON_STATE = Path("/var/lib/deviceplugin")

NODE = "node1"
BRIDGE = "dpcluster"
NODE_IP = "10.244.0.1"  # the bridge's own address: no outside interface is needed
POD_SUBNET = "10.244.0.0/24"
SERVICE_SUBNET = "10.96.0.0/16"
SERVICE_IP = "10.96.0.1"
API_PORT = 6443
API_URL = f"https://127.0.0.1:{API_PORT}"
PAUSE_IMAGE = "localhost/pause:1"
BUSYBOX_IMAGE = "localhost/busybox:1"


def program(name: str) -> Path:
    """One of the programs in the multi-call binary."""
    return PROGRAMS / name
