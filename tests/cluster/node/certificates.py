"""Keys, certificates of a CA of our own, and kubeconfigs."""

import base64
import json
from pathlib import Path

from tests.cluster.node.paths import API_URL, NODE, NODE_IP, SERVICE_IP, STATE
from tests.cluster.node.shell import run

PKI = STATE / "pki"

_CLIENTS = {
    "admin": "/O=system:masters/CN=admin",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "proxy": "/CN=system:kube-proxy",
    "kubelet": f"/O=system:nodes/CN=system:node:{NODE}",
}
_API_NAMES = (
    "DNS:localhost",
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    "DNS:kubernetes.default.svc.cluster.local",
    "IP:127.0.0.1",
    f"IP:{NODE_IP}",
    f"IP:{SERVICE_IP}",
)
_KUBELET_NAMES = (f"DNS:{NODE}", f"IP:{NODE_IP}", "IP:127.0.0.1")


def make() -> None:
    """Make all that the programs identify themselves with."""
    PKI.mkdir(parents=True, mode=0o700)
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "ca.key")
    _openssl(
        "req", "-x509", "-new", "-key", "ca.key", "-subj", "/CN=ca", "-days", "30", "-out", "ca.crt"
    )
    _openssl("genrsa", "-out", "serviceaccount.key", "2048")
    _openssl("rsa", "-in", "serviceaccount.key", "-pubout", "-out", "serviceaccount.pub")
    _certificate("apiserver", "/CN=kube-apiserver", *_API_NAMES)
    _certificate("kubelet-server", _CLIENTS["kubelet"], *_KUBELET_NAMES)
    _certificate("apiserver-kubelet-client", "/O=system:masters/CN=apiserver-kubelet-client")
    for name, subject in _CLIENTS.items():
        _certificate(name, subject)
        _write_kubeconfig(STATE / f"{name}.kubeconfig", name)


def _certificate(name: str, subject: str, *names: str) -> None:
    """A key with its certificate: a server's where there are names, else a client's."""
    usage = "serverAuth,clientAuth" if names else "clientAuth"
    lines = ["keyUsage=digitalSignature", f"extendedKeyUsage={usage}"]
    lines += [f"subjectAltName={','.join(names)}"] if names else []
    (PKI / f"{name}.ext").write_text("\n".join([*lines, ""]))
    key, request = f"{name}.key", f"{name}.csr"
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    _openssl("req", "-new", "-key", key, "-subj", subject, "-out", request)
    signed = ["x509", "-req", "-in", request, "-CA", "ca.crt", "-CAkey", "ca.key"]
    signed += ["-CAcreateserial", "-days", "30", "-extfile", f"{name}.ext", "-out", f"{name}.crt"]
    _openssl(*signed)


def _write_kubeconfig(path: Path, name: str) -> None:
    cluster = {"server": API_URL, "certificate-authority-data": _data("ca.crt")}
    user = {
        "client-certificate-data": _data(f"{name}.crt"),
        "client-key-data": _data(f"{name}.key"),
    }
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(text))


def _data(file: str) -> str:
    return base64.b64encode((PKI / file).read_bytes()).decode()


def _openssl(*words: str) -> None:
    run("openssl", *words, cwd=PKI)
