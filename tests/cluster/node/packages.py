"""What the cluster takes of Debian: runc, network plugins, and the makers of images."""

import os
import shutil
from pathlib import Path

from tests.cluster.node.shell import ClusterError, run, say

_NEEDED = {
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "nft": "nftables",
    "ip": "iproute2",
    "openssl": "openssl",
    "gcc": "gcc",
    "/bin/busybox": "busybox-static",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
}


def absent() -> list[str]:
    """The packages whose programs are not here."""
    return sorted(package for name, package in _NEEDED.items() if not _there(name))


def check() -> None:
    """See that all is here.

    Raises:
        ClusterError: it is not, or we are not root.

    """
    reason = obstacle()
    if reason:
        raise ClusterError(reason)


def obstacle() -> str:
    """Why no cluster can be had on this machine; "" when it can."""
    if os.geteuid() != 0:
        return "a cluster needs root"
    missing = absent()
    return f"missing: {', '.join(missing)}; run `make cluster-packages`" if missing else ""


def install() -> None:
    """Install what is absent, where apt is there to do it.

    Raises:
        ClusterError: apt failed, or is not there.

    """
    missing = absent()
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise ClusterError(f"no apt here: install {', '.join(missing)} by other means")
    say(f"installing {', '.join(missing)}")
    run("apt-get", "update", "-q")
    run("apt-get", "install", "-q", "-y", "--no-install-recommends", "libc6-dev", *missing)


def _there(name: str) -> bool:
    return Path(name).exists() if name.startswith("/") else shutil.which(name) is not None
