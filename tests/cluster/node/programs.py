"""Builds the cluster's programs of published Go modules; what is up to date is left alone."""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster.node.paths import BUILD, CONTAINERD, CONTAINERD_RELEASE, PROGRAMS, RELEASE
from tests.cluster.node.shell import run, say
from tests.kubelet import go

_SOURCES = Path(__file__).parents[1] / "programs"
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
_CONTAINERD_NAMES = ("containerd", "containerd-shim-runc-v2", "ctr")
_CONTAINERD_TAGS = "no_btrfs no_devmapper no_zfs urfave_cli_no_docs"
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
    _once(PROGRAMS, _made_of(), f"Kubernetes {RELEASE}", _build_kubernetes)
    _once(CONTAINERD, CONTAINERD_RELEASE, f"containerd {CONTAINERD_RELEASE}", _build_containerd)


def _once(target: Path, made_of: str, what: str, make: Callable[[Path, Path], None]) -> None:
    stamp = target / "made-of"
    if stamp.exists() and stamp.read_text() == made_of:
        return
    say(f"building {what}: some minutes the first time")
    began = time.monotonic()
    shutil.rmtree(target, ignore_errors=True)
    module = target / "module"
    module.mkdir(parents=True)
    make(target, module)
    stamp.write_text(made_of)
    size = sum(path.stat().st_size for path in target.iterdir() if _is_program(path)) >> 20
    say(f"built {what} in {time.monotonic() - began:.0f} s, {size} MiB")


def _is_program(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _made_of() -> str:
    sources = [path.read_bytes() for path in sorted(_SOURCES.glob("*.go"))]
    return hashlib.sha256(b"".join(sources)).hexdigest()


def _build_kubernetes(target: Path, module: Path) -> None:
    for source in _SOURCES.glob("*.go"):
        shutil.copy(source, module)
    (module / "go.mod").write_text(_kubernetes_modules(module))
    go.run(module, "list", "-deps", "-mod=mod", ".")  # fetches, and completes go.mod and go.sum
    major, minor, _ = RELEASE.split(".")
    stamps = {"gitVersion": f"v{RELEASE}", "gitMajor": major, "gitMinor": minor}
    stamps["gitTreeState"] = "clean"
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    said = [f"-X {where}.{key}={value}" for key, value in stamps.items() for where in packages]
    flags = ["-trimpath", "-mod=readonly", "-ldflags", " ".join(["-s -w", *said])]
    go.run(module, "build", *flags, "-o", str(target / "cluster"), ".")
    for name in _NAMES:
        (target / name).symlink_to("cluster")


def _kubernetes_modules(module: Path) -> str:
    """The go.mod of a module that takes Kubernetes' programs.

    The staging modules, which Kubernetes' own go.mod has in folders beside it, are replaced by
    the published ones; etcd is the release that Kubernetes names.
    """
    upstream = (_download("k8s.io/kubernetes", RELEASE, module) / "go.mod").read_text()
    staging = re.findall(r"^\s*(\S+) => \./staging/src/", upstream, re.MULTILINE)
    version = f"v0.{RELEASE.partition('.')[2]}"
    etcd = re.findall(r"go\.etcd\.io/etcd/server/v3 (\S+)", upstream)[0]
    kept = re.findall(r"^(?:go|godebug) \S.*$", upstream, re.MULTILINE)
    own = ("client-go", "component-base", "cri-api", "kubectl")
    return "\n".join(
        [
            "module cluster",
            *kept,
            "require (",
            f"k8s.io/kubernetes v{RELEASE}",
            f"go.etcd.io/etcd/server/v3 {etcd}",
            *(f"k8s.io/{name} {version}" for name in own),
            ")",
            "replace (",
            *(f"{name} => {name} {version}" for name in staging),
            ")",
            "",
        ]
    )


def _build_containerd(target: Path, module: Path) -> None:
    package = "github.com/containerd/containerd/v2"
    # Its replace and exclude lines count in the main module only, so its go.mod is taken over.
    upstream = (_download(package, CONTAINERD_RELEASE, module) / "go.mod").read_text()
    named = re.sub(r"^module .*$", "module cluster", upstream, count=1, flags=re.MULTILINE)
    (module / "go.mod").write_text(f"{named}\nrequire {package} v{CONTAINERD_RELEASE}\n")
    imports = "\n".join(f'import _ "{package}/cmd/{name}"' for name in _CONTAINERD_NAMES)
    (module / "keep.go").write_text(f"//go:build keep\n\npackage keep\n\n{imports}\n")
    version = f"-s -w -X {package}/version.Version=v{CONTAINERD_RELEASE}"
    flags = ["-trimpath", "-mod=mod", "-tags", _CONTAINERD_TAGS, "-ldflags", version]
    for name in _CONTAINERD_NAMES:
        go.run(module, "build", *flags, "-o", str(target / name), f"{package}/cmd/{name}")


def _download(module: str, release: str, at: Path) -> Path:
    return Path(json.loads(go.run(at, "mod", "download", "-json", f"{module}@v{release}"))["Dir"])
