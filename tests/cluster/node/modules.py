"""The Go modules of the cluster's programs: pinned where we have pins, else as upstream says."""

import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.node.paths import CONTAINERD_RELEASE, RELEASE
from tests.kubelet import go
from tests.kubelet.modules import published, replacements

_FOLDER = Path(__file__).parents[1] / "programs"
CONTAINERD = "github.com/containerd/containerd/v2"
CONTAINERD_PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
CONTAINERD_TAGS = "no_btrfs no_devmapper no_zfs urfave_cli_no_docs"

_FILES = ("go.mod", "go.sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """Where the go.mod and go.sum of one build come from.

    Attributes:
        name: of the folder of its pins.
        require: writes a go.mod made from upstream's into a folder.
        sources: our own Go files, whose imports say what is needed.
        listed: what ``go list`` is asked for: it fetches, and completes both files.

    """

    name: str
    require: Callable[[Path], None]
    listed: tuple[str, ...]
    sources: tuple[Path, ...] = ()

    def pins(self) -> list[Path]:
        """The pinned files; none where this release has no pins."""
        folder = _FOLDER / "mods" / self.name
        return [folder / name for name in _FILES if folder.exists()]

    def prepare(self, folder: Path) -> None:
        """Make a folder ready to be built in.

        Raises:
            GoFailedError: a module could not be fetched, or is not what was pinned.

        """
        pins = self.pins()
        for path in (*self.sources, *pins):
            shutil.copy(path, folder)
        if not pins:
            self.require(folder)
        mode = "readonly" if pins else "mod"
        go.run(folder, "list", "-deps", f"-mod={mode}", *self.listed)

    def pin(self) -> None:
        """Pin anew what upstream says."""
        target = _FOLDER / "mods" / self.name
        shutil.rmtree(target, ignore_errors=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.prepare(folder)
            target.mkdir(parents=True)
            for file in _FILES:
                shutil.copy(folder / file, target)


def _require_kubernetes(folder: Path) -> None:
    """Require Kubernetes, whose programs ours takes.

    The staging modules, which its own go.mod has in folders beside it, are replaced by the
    published ones; etcd is the release that it names.
    """
    upstream = go.upstream(folder, "k8s.io/kubernetes", RELEASE)
    etcd = re.findall(r"go\.etcd\.io/etcd/server/v3 (\S+)", upstream)[0]
    kept = re.findall(r"^(?:go|godebug) \S.*$", upstream, re.MULTILINE)
    own = ("client-go", "component-base", "cri-api", "kubectl")
    lines = [
        "module cluster",
        *kept,
        "require (",
        f"k8s.io/kubernetes v{RELEASE}",
        f"go.etcd.io/etcd/server/v3 {etcd}",
        *(f"k8s.io/{name} {published(RELEASE)}" for name in own),
        ")",
        "replace (",
        *replacements(upstream, RELEASE),
        ")",
    ]
    (folder / "go.mod").write_text("\n".join([*lines, ""]))


def _require_containerd(folder: Path) -> None:
    """Take over its go.mod: the replace and exclude lines in it count in the main module only."""
    upstream = go.upstream(folder, CONTAINERD, CONTAINERD_RELEASE)
    named = re.sub(r"^module .*$", "module cluster", upstream, count=1, flags=re.MULTILINE)
    text = f"{named}\nrequire {CONTAINERD} v{CONTAINERD_RELEASE}\n"
    (folder / "go.mod").write_text(text)


FOR_KUBERNETES = Modules(
    name=f"kubernetes-{RELEASE}",
    require=_require_kubernetes,
    listed=(".",),
    sources=tuple(sorted(_FOLDER.glob("*.go"))),
)
FOR_CONTAINERD = Modules(
    name=f"containerd-{CONTAINERD_RELEASE}",
    require=_require_containerd,
    listed=(
        "-tags",
        CONTAINERD_TAGS,
        *(f"{CONTAINERD}/cmd/{program}" for program in CONTAINERD_PROGRAMS),
    ),
)
