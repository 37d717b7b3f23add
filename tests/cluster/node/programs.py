"""Builds the cluster's programs of published Go modules; what is up to date is left alone."""

import hashlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster.node import modules
from tests.cluster.node.modules import FOR_CONTAINERD, FOR_KUBERNETES, Modules
from tests.cluster.node.paths import BUILD, CONTAINERD, CONTAINERD_RELEASE, PROGRAMS, RELEASE
from tests.cluster.node.shell import run, say
from tests.kubelet import go

_NAMES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
    "cri-purge",
)
_GO = "1.26.6"  # what the newest of the pinned go.mod files asks for
_PAUSE = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n"

PAUSE = BUILD / "pause"


def build() -> None:
    """Build all that is not up to date.

    Raises:
        GoMissingError: there is no Go, or too old a one.
        GoFailedError: the compiler or the module proxy failed.

    """
    BUILD.mkdir(parents=True, exist_ok=True)
    if not PAUSE.exists():
        run("gcc", "-static", "-Os", "-s", "-x", "c", "-o", PAUSE, "-", stdin=_PAUSE)
    _once(PROGRAMS, FOR_KUBERNETES, f"Kubernetes {RELEASE}", _build_kubernetes)
    _once(CONTAINERD, FOR_CONTAINERD, f"containerd {CONTAINERD_RELEASE}", _build_containerd)


def pin() -> None:
    """Pin the modules of both releases; what this writes is to be committed."""
    for each in (FOR_KUBERNETES, FOR_CONTAINERD):
        each.pin()


def _once(target: Path, made_of: Modules, what: str, make: Callable[[Path, Path], None]) -> None:
    stamp, digest = target / "made-of", _digest(made_of)
    if stamp.exists() and stamp.read_text() == digest:
        return
    go.need(_GO)
    say(f"building {what}: some minutes the first time")
    began = time.monotonic()
    shutil.rmtree(target, ignore_errors=True)
    module = target / "module"
    module.mkdir(parents=True)
    made_of.prepare(module)
    make(target, module)
    stamp.write_text(digest)
    size = sum(path.stat().st_size for path in target.iterdir() if _is_program(path)) >> 20
    say(f"built {what} in {time.monotonic() - began:.0f} s, {size} MiB")


def _is_program(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _digest(made_of: Modules) -> str:
    """What a build is made of: our sources, and the pins."""
    paths = (*made_of.sources, *made_of.pins())
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _build_kubernetes(target: Path, module: Path) -> None:
    major, minor, _ = RELEASE.split(".")
    stamps = {"gitVersion": f"v{RELEASE}", "gitMajor": major, "gitMinor": minor}
    stamps["gitTreeState"] = "clean"
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    said = [f"-X {where}.{key}={value}" for key, value in stamps.items() for where in packages]
    flags = ["-trimpath", "-mod=readonly", "-ldflags", " ".join(["-s -w", *said])]
    go.run(module, "build", *flags, "-o", str(target / "cluster"), ".")
    for name in _NAMES:
        (target / name).symlink_to("cluster")


def _build_containerd(target: Path, module: Path) -> None:
    version = f"-s -w -X {modules.CONTAINERD}/version.Version=v{CONTAINERD_RELEASE}"
    flags = ["-trimpath", "-mod=readonly", "-tags", modules.CONTAINERD_TAGS, "-ldflags", version]
    for name in modules.CONTAINERD_PROGRAMS:
        package = f"{modules.CONTAINERD}/cmd/{name}"
        go.run(module, "build", *flags, "-o", str(target / name), package)
