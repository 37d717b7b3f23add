"""The kubelet, as a real node runs it but for its pace."""

import json
import signal
from collections.abc import Mapping

from tests.cluster.node import processes
from tests.cluster.node.certificates import PKI
from tests.cluster.node.paths import (
    CONTAINERD_SOCKET,
    DEVICE_PLUGINS,
    KUBELET_ROOT,
    NODE,
    NODE_IP,
    STATE,
    program,
)

QUICK: Mapping[str, object] = {"nodeStatusUpdateFrequency": "1s", "syncFrequency": "1s"}
"""The node's status and mounted ConfigMaps follow within seconds."""

DEFAULT: Mapping[str, object] = {"nodeStatusUpdateFrequency": "10s", "syncFrequency": "1m"}
"""What a kubelet does that nobody tuned."""

_CONFIG = STATE / "kubelet.json"
_NEVER = dict.fromkeys(
    ("memory.available", "nodefs.available", "nodefs.inodesFree"), "0%"
) | dict.fromkeys(("imagefs.available", "imagefs.inodesFree"), "0%")


def start(settings: Mapping[str, object] = QUICK) -> None:
    """Start it; ``settings`` are fields of a KubeletConfiguration."""
    DEVICE_PLUGINS.mkdir(parents=True, exist_ok=True)
    _CONFIG.write_text(json.dumps({**_base(), **settings}, indent=1))
    processes.start(
        "kubelet",
        program("kubelet"),
        f"--config={_CONFIG}",
        f"--kubeconfig={STATE / 'kubelet.kubeconfig'}",
        f"--root-dir={KUBELET_ROOT}",
        f"--cert-dir={STATE / 'kubelet-certs'}",
        f"--hostname-override={NODE}",
        f"--node-ip={NODE_IP}",
    )


def stop(*, how: signal.Signals = signal.SIGTERM) -> None:
    """End it; pods go on."""
    processes.stop("kubelet", how=how)


def _base() -> dict[str, object]:
    authentication = {
        "anonymous": {"enabled": False},
        "webhook": {"enabled": True},
        "x509": {"clientCAFile": str(PKI / "ca.crt")},
    }
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": authentication,
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(PKI / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(PKI / "kubelet-server.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "podLogsDir": str(STATE / "pod-logs"),
        # A test machine's full disk is no reason to evict, nor to remove images that no
        # registry would give back.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": _NEVER,
    }
