"""Container images without a registry: small ones of our own, stand-ins for bases, ours."""

import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.node import containerd
from tests.cluster.node.paths import BUSYBOX_IMAGE, IMAGES, PAUSE_IMAGE, ROOT
from tests.cluster.node.programs import PAUSE
from tests.cluster.node.shell import ClusterError, run, say, succeeds

DEBIAN = "docker.io/library/debian:bookworm-slim"

_BUSYBOX = Path("/bin/busybox")
_FOLDERS = ("bin", "dev", "etc", "proc", "sys", "tmp", "var")
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_UNITS = {"KB": 1e3, "MB": 1e6, "GB": 1e9}
# What the extension modules of Python's standard library link to.
_PYTHON_LIBRARIES = (
    "ca-certificates,libbz2-1.0,libexpat1,libffi8,liblzma5,libncursesw6,libreadline8,"
    "libsqlite3-0,libssl3,libuuid1,zlib1g"
)
_NOT_IN_DEBIAN = ("doc", "man", "locale", "info")
_NOT_IN_PYTHON = (
    "__pycache__",
    "lib/python*/test",
    "lib/python*/idlelib",
    "lib/python*/tkinter",
    "lib/python*/config-*",
    "lib/python*/site-packages/*.pth",
    "lib/python*/lib-dynload/_test*",
    "*.a",
    "share",
)
# pip in a build trusts and asks what pip outside does; the files are mounted, not copied.
_HOST_FILES = (Path("/etc/ssl/certs"), Path("/etc/pip.conf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """An image of ours.

    Attributes:
        size: bytes, unpacked, with the base.
        own: bytes of the layers above the base.
        seconds: how long it took, with a warm cache or without.

    """

    name: str
    id: str
    size: int
    own: int
    seconds: float


# Small images


def load_small() -> None:
    """Load the sandbox's image and busybox."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    if not _BUSYBOX.exists():
        raise ClusterError("no static busybox: run `make cluster-packages`")
    containerd.load(_archive(PAUSE_IMAGE, _layer({"pause": PAUSE}), ["/pause"]))
    applets = run(_BUSYBOX, "--list").split()
    links = {f"bin/{name}": "busybox" for name in applets if name != "busybox"}
    layer = _layer({"bin/busybox": _BUSYBOX}, links, _FOLDERS)
    containerd.load(_archive(BUSYBOX_IMAGE, layer, ["/bin/sh"]))


def _layer(
    files: Mapping[str, Path], links: Mapping[str, str] | None = None, folders: Iterable[str] = ()
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in folders:
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(info)
        for name, source in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = source.stat().st_size, 0o755
            tar.addfile(info, io.BytesIO(source.read_bytes()))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return buffer.getvalue()


def _archive(name: str, layer: bytes, entrypoint: Sequence[str]) -> Path:
    """An image of one layer, as `docker save` would write it."""
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": entrypoint, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    parts = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
        "manifest.json": json.dumps(manifest).encode(),
    }
    path = IMAGES / f"{name.rpartition('/')[2].replace(':', '-')}.tar"
    with tarfile.open(path, "w") as archive:
        for part, data in parts.items():
            info = tarfile.TarInfo(part)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


# Stand-ins for public bases


def base_of(dockerfile: Path) -> str:
    """The public image that a Dockerfile is based on."""
    found = re.search(r"^ARG PYTHON_IMAGE=(\S+)$", dockerfile.read_text(), re.MULTILINE)
    if found is None:
        raise ClusterError(f"{dockerfile} names no PYTHON_IMAGE to stand in for")
    return found[1]


def make_base(image: str) -> None:
    """Make a stand-in for python:…-slim-bookworm of Debian's packages and this Python.

    The same layout, not the same bytes: no registry can be reached.
    """
    IMAGES.mkdir(parents=True, exist_ok=True)
    if _present(image):
        return
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=IMAGES) as folder:
        if not _present(DEBIAN):
            _make_debian(Path(folder))
        _make_python(Path(folder), image)
    say(f"made a stand-in for {image} in {time.monotonic() - began:.0f} s")


def _make_debian(folder: Path) -> None:
    root = folder / "debian.tar"
    slim = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _NOT_IN_DEBIAN]
    packages = f"--include={_PYTHON_LIBRARIES}"
    run("mmdebstrap", "--variant=minbase", packages, *slim, "bookworm", root)
    container = run(*buildah("from", "scratch")).split()[-1]
    run(*buildah("add", "-q", container, root, "/"))
    _commit(container, DEBIAN, "bash")


def _make_python(folder: Path, image: str) -> None:
    tree = folder / "root" / "usr" / "local"
    tree.mkdir(parents=True)
    excluded = [f"--exclude={pattern}" for pattern in _NOT_IN_PYTHON]
    packed = folder / "python.tar"
    run("tar", "-C", sys.base_prefix, *excluded, "-cf", packed, "bin", "include", "lib")
    run("tar", "-C", tree, "-xf", packed)
    _keep_pip_alone(tree)
    container = run(*buildah("from", "--pull-never", DEBIAN)).split()[-1]
    run(*buildah("add", "-q", container, folder / "root", "/"))
    works = "ldconfig && python3 -m pip --version && python3 -c 'import bz2, ctypes, sqlite3, ssl'"
    run(*buildah("run", "--isolation", "chroot", container, "--", "sh", "-c", works))
    _commit(container, image, "python3")


def _keep_pip_alone(tree: Path) -> None:
    """Of what is installed beside the standard library the public image has pip alone."""
    for entry in next(tree.glob("lib/python*/site-packages")).iterdir():
        if entry.name.startswith("pip"):
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    for script in (tree / "bin").iterdir():
        if script.is_symlink():
            continue
        head, newline, rest = script.read_bytes().partition(b"\n")
        if not head.startswith(b"#!" + sys.base_prefix.encode()):
            continue
        if script.name.startswith("pip"):
            head = head.replace(sys.base_prefix.encode(), b"/usr/local")
            script.write_bytes(head + newline + rest)
        else:
            script.unlink()


def _commit(container: str, image: str, command: str) -> None:
    settings = ["--cmd", command, "--env", f"PATH={_PATH}", "--env", "LANG=C.UTF-8"]
    run(*buildah("config", *settings, container))
    run(*buildah("commit", "-q", "--squash", "--rm", container, image))


# Ours


def build(name: str, *, cached: bool = True, context: Path = ROOT) -> Built:
    """Build the Dockerfile of a folder, as it stands."""
    base = base_of(context / "Dockerfile")
    make_base(base)
    began = time.monotonic()
    mounts = [word for path in _HOST_FILES if path.exists() for word in ("-v", f"{path}:{path}:ro")]
    cache = ["--layers"] if cached else ["--no-cache"]
    # One time for all files and for the image itself: the second build is to be the same.
    made = ["--isolation", "chroot", "--pull-never", "--timestamp", "0", *cache]
    run(*buildah("bud", *made, *mounts, "-t", name, context))
    seconds = time.monotonic() - began
    image, size = _image(name)
    return Built(name=name, id=image, size=size, own=size - _image(base)[1], seconds=seconds)


def load(name: str) -> None:
    """Load an image that was built here into the cluster."""
    path = IMAGES / "built.tar"
    path.unlink(missing_ok=True)
    run(*buildah("push", "-q", name, f"docker-archive:{path}:{name}"))
    containerd.load(path)
    path.unlink()


def run_in(name: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in an image, outside of the cluster."""
    container = run(*buildah("from", "--pull-never", name)).split()[-1]
    words = buildah("run", "--isolation", "chroot", container, "--", *command)
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False)
    finally:
        run(*buildah("rm", container))


def buildah(*words: str | Path) -> list[str | Path]:
    """A command of buildah, whose storage is in our build folder."""
    storage = IMAGES / "storage"
    places: list[str | Path] = ["--root", storage / "root", "--runroot", storage / "run"]
    return ["buildah", *places, "--storage-driver", "overlay", *words]


def _present(image: str) -> bool:
    return succeeds(*buildah("inspect", "--type", "image", image))


def _image(name: str) -> tuple[str, int]:
    """Id and size of an image; the id is the digest of its config, which names its layers."""
    images = json.loads(run(*buildah("images", "--json")))
    image = next(each for each in images if name in (each["names"] or ()))
    number, unit = image["size"].split()
    return image["id"], round(float(number) * _UNITS[unit.upper()])
