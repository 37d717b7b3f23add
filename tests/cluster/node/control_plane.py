"""etcd, the API server and those who watch it."""

import json
import ssl
import urllib.request

from tests.cluster.node import processes
from tests.cluster.node.certificates import PKI
from tests.cluster.node.paths import (
    API_PORT,
    API_URL,
    NODE,
    NODE_IP,
    POD_SUBNET,
    SERVICE_SUBNET,
    STATE,
    program,
)

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")

_ETCD = "http://127.0.0.1:23790"
_ETCD_PEER = "http://127.0.0.1:23800"


def start_etcd() -> None:
    """Start etcd; what it holds lives as long as the cluster does."""
    processes.start(
        "etcd",
        program("etcd"),
        "--name=test",
        f"--data-dir={STATE / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        f"--listen-peer-urls={_ETCD_PEER}",
        f"--initial-advertise-peer-urls={_ETCD_PEER}",
        f"--initial-cluster=test={_ETCD_PEER}",
        "--log-level=warn",
    )
    processes.wait_alive("etcd", lambda: _answers(f"{_ETCD}/health"), "etcd")


def start_apiserver() -> None:
    """Start the API server, with the authorization of a real cluster."""
    processes.start(
        "kube-apiserver",
        program("kube-apiserver"),
        f"--etcd-servers={_ETCD}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_PORT}",
        f"--advertise-address={NODE_IP}",
        f"--service-cluster-ip-range={SERVICE_SUBNET}",
        f"--client-ca-file={PKI / 'ca.crt'}",
        f"--cert-dir={PKI}",
        f"--tls-cert-file={PKI / 'apiserver.crt'}",
        f"--tls-private-key-file={PKI / 'apiserver.key'}",
        f"--kubelet-client-certificate={PKI / 'apiserver-kubelet-client.crt'}",
        f"--kubelet-client-key={PKI / 'apiserver-kubelet-client.key'}",
        f"--kubelet-certificate-authority={PKI / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={PKI / 'serviceaccount.pub'}",
        f"--service-account-signing-key-file={PKI / 'serviceaccount.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
    )


def wait_for_apiserver() -> None:
    """Wait until the API server is ready."""
    context = ssl.create_default_context(cafile=str(PKI / "ca.crt"))
    context.load_cert_chain(PKI / "admin.crt", PKI / "admin.key")
    processes.wait_alive(
        "the API server", lambda: _answers(f"{API_URL}/readyz", context), "etcd", "kube-apiserver"
    )


def start_watchers() -> None:
    """Start controller manager, scheduler and kube-proxy."""
    processes.start(
        "kube-controller-manager",
        program("kube-controller-manager"),
        f"--kubeconfig={STATE / 'controller-manager.kubeconfig'}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--root-ca-file={PKI / 'ca.crt'}",
        f"--service-account-private-key-file={PKI / 'serviceaccount.key'}",
        f"--cluster-signing-cert-file={PKI / 'ca.crt'}",
        f"--cluster-signing-key-file={PKI / 'ca.key'}",
        f"--cert-dir={STATE / 'controller-manager'}",
        "--bind-address=127.0.0.1",
        "--profiling=false",
    )
    processes.start(
        "kube-scheduler",
        program("kube-scheduler"),
        f"--kubeconfig={STATE / 'scheduler.kubeconfig'}",
        "--leader-elect=false",
        f"--cert-dir={STATE / 'scheduler'}",
        "--bind-address=127.0.0.1",
        "--profiling=false",
    )
    _start_proxy()


def _start_proxy() -> None:
    config = STATE / "proxy.json"
    text = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": POD_SUBNET,
        "hostnameOverride": NODE,
        "oomScoreAdj": 0,
        "clientConnection": {"kubeconfig": str(STATE / "proxy.kubeconfig")},
        # The machine's own limits are not ours to change.
        "conntrack": {"maxPerCore": 0, "min": 0},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    }
    config.write_text(json.dumps(text))
    processes.start("kube-proxy", program("kube-proxy"), f"--config={config}")


def _answers(url: str, context: ssl.SSLContext | None = None) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as reply:  # noqa: S310 - our own addresses
            return bool(reply.status == 200)
    except OSError:
        return False
