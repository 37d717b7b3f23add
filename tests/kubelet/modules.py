"""The pinned modules of the harness, made from Kubernetes' own go.mod.

Kubernetes requires its staging modules at v0.0.0 and points them at folders of its own tree. From
outside each has to be replaced with the published v0.<minor>.<patch>.
"""

import re
from pathlib import Path

from tests.kubelet import go
from tests.kubelet.releases import minor

_HEAD = """\
// Written by build.py, completed by the Go tool.
module deviceplugin/kubelet-harness

go {go}

require k8s.io/kubernetes v{release}

replace (
{replaced}
)
"""


def write(harness: Path, release: str) -> None:
    """Write what the next build completes with everything that is needed indirectly.

    Raises:
        GoFailedError: the release could not be downloaded.

    """
    upstream = go.upstream(harness, "k8s.io/kubernetes", release)
    version = re.search(r"^go (\S+)$", upstream, re.MULTILINE)
    assert version, "Kubernetes' go.mod names no Go version"
    replaced = "\n".join(f"\t{line}" for line in replacements(upstream, release))
    folder = harness / "mods" / minor(release)
    folder.mkdir(parents=True, exist_ok=True)
    text = _HEAD.format(go=version[1], release=release, replaced=replaced)
    (folder / "go.mod").write_text(text)
    (folder / "go.sum").unlink(missing_ok=True)


def published(release: str) -> str:
    """Return the version of the staging modules: "1.37.2" goes with "v0.37.2"."""
    return "v0." + release.partition(".")[2]


def replacements(upstream: str, release: str) -> list[str]:
    """Return a replace line for each staging module in Kubernetes' own go.mod."""
    staging = re.findall(r"^\s*(\S+) => \./staging/src/\S+$", upstream, re.MULTILINE)
    return [f"{name} => {name} {published(release)}" for name in staging]
