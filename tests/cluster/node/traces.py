"""What a cluster can leave on a machine: seen before it comes up, and again when it is gone."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.node import network
from tests.cluster.node.paths import BRIDGE, BUILD, DAEMON_STATE, KUBELET_ROOT, STATE
from tests.cluster.node.shell import ClusterError, ClusterTimeoutError, run, wait_for

# The cluster's alone; whoever left something in them lets no other cluster start.
_OURS = (KUBELET_ROOT, DAEMON_STATE)
# Made by kubelet, containerd and network plugins at places that no setting moves.
_FOLDERS = (
    *_OURS,
    Path("/opt/containerd"),
    Path("/run/containerd"),
    Path("/run/netns"),
    Path("/var/lib/cni"),
    Path("/var/log/containers"),
)
_RECORD = STATE / "before.json"


def seen() -> frozenset[str]:
    """All that is there now, a line each, such as "link dpcluster"."""
    return frozenset(
        [
            *(f"process {pid} {name}" for pid, name in _processes()),
            *(f"mount {point}" for point in mounts()),
            *(f"link {link.name}" for link in Path("/sys/class/net").iterdir()),
            *(f"setting {name} {value.strip()}" for name, value in network.settings().items()),
            *run("nft", "list", "tables").splitlines(),
            *(f"cgroup {folder}" for folder in Path("/sys/fs/cgroup").glob("**/kubepods")),
            *(f"folder {folder}" for folder in (STATE, *_FOLDERS) if folder.exists()),
            *(f"file {path}" for path in _files()),
            *(f"file {path}" for folder in _OURS for path in folder.glob("*")),
        ]
    )


def remember(before: frozenset[str]) -> None:
    """Write down what was there before the cluster."""
    _RECORD.write_text(json.dumps(sorted(before)))


def before() -> frozenset[str] | None:
    """What was there before the cluster; None when it ended before it wrote that down."""
    try:
        return frozenset(json.loads(_RECORD.read_text()))
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def mounts() -> list[str]:
    """All mount points, the innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    return list(reversed(points))


def remove_files(before: frozenset[str]) -> None:
    """Remove folders that were not there before; of others only what is surely ours."""
    for path in _files():
        path.unlink()
    for folder in _FOLDERS:
        if f"folder {folder}" not in before and not _holds_mounts(folder):
            shutil.rmtree(folder, ignore_errors=True)


def check(before: frozenset[str]) -> None:
    """See that nothing is there now that was not there before.

    Raises:
        ClusterError: something is, after some seconds still; the text lists it.

    """
    try:
        # Shims and network devices go a moment after those whose they were.
        wait_for("nothing to be left", lambda: seen() <= before, seconds=5)
    except ClusterTimeoutError:
        left = "\n".join(sorted(seen() - before))
        raise ClusterError(f"the cluster is gone, but it left behind:\n{left}") from None


def _processes() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            program = str((entry / "exe").readlink())
        except OSError:
            continue
        if program.startswith(f"{BUILD}/"):
            yield int(entry.name), program


def _files() -> list[Path]:
    """Files of ours in folders that another runtime may use, too."""
    links = [path for path in Path("/var/log/containers").glob("*.log") if _is_ours(path)]
    return [*links, *Path("/var/lib/cni/results").glob(f"{BRIDGE}-*")]


def _is_ours(link: Path) -> bool:
    return link.is_symlink() and str(link.readlink()).startswith(f"{STATE}/")


def _holds_mounts(folder: Path) -> bool:
    return any(f"{point}/".startswith(f"{folder}/") for point in mounts())
