"""The pods' bridge, and the kernel settings that a kubelet changes."""

import json
from pathlib import Path

from tests.cluster.node.paths import BRIDGE, NODE_IP, STATE
from tests.cluster.node.shell import run, succeeds

_SAVED = STATE / "sysctls.json"
_SETTINGS = (
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
_PROXY_TABLES = (("ip", "kube-proxy"), ("ip6", "kube-proxy"))


def make() -> None:
    """Make the bridge, with the node's address on it; remember the kernel's settings."""
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "addr", "add", f"{NODE_IP}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    _SAVED.write_text(json.dumps(settings()))
    _setting("net/ipv4/ip_forward").write_text("1")


def remove() -> None:
    """Take all of it away, and put the settings back."""
    for family, table in _PROXY_TABLES:
        succeeds("nft", "delete", "table", family, table)
    succeeds("ip", "link", "delete", BRIDGE)
    if _SAVED.exists():
        for name, value in json.loads(_SAVED.read_text()).items():
            _setting(name).write_text(value)


def settings() -> dict[str, str]:
    """The values, by their names."""
    return {name: _setting(name).read_text() for name in _SETTINGS}


def _setting(name: str) -> Path:
    return Path("/proc/sys") / name
