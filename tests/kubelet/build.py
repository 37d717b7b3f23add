"""Build the real device manager of Kubernetes releases: ``python -m tests.kubelet.build 1.37``.

No name: all. Simulated kubelets among the names need no build. ``--refresh`` writes the
pinned modules anew from Kubernetes' own, after a release was changed in releases.py.
"""

import argparse
import hashlib
import logging
import os
import re
import sys
import time
from pathlib import Path

from tests.kubelet import go, modules
from tests.kubelet.releases import MINORS

HARNESS = Path(__file__).parent / "harness"
PROGRAMS = Path(os.environ.get("KUBELET_PROGRAMS", "build/kubelet")).absolute()
# Whoever else builds parts of Kubernetes with the same flags shares the compiler's cache.
_FLAGS = ("-trimpath", "-mod=mod", "-ldflags", "-s -w")
_LOG = logging.getLogger("build")


def main() -> int:
    """Build what was asked for; without Go say so, which is no failure."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    arguments = _arguments()
    try:
        for release in arguments.kubelets or MINORS:
            if not release.startswith("simulated-"):
                _one(release, refresh=arguments.refresh)
    except go.GoMissingError as error:
        _LOG.info("the real kubelets are left out: %s", error)
    except go.GoFailedError as error:
        _LOG.error("the build failed:\n%s", error)
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = [*MINORS, "simulated-1.36", "simulated-1.37"]
    parser.add_argument("kubelets", nargs="*", metavar="KUBELET", help=", ".join(known))
    parser.add_argument("--refresh", action="store_true", help="write the pinned modules anew")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.kubelets if name not in known]:
        parser.error(f"unknown kubelet {unknown[0]!r}: write one of {', '.join(known)}")
    return arguments


def _one(release: str, *, refresh: bool) -> None:
    if refresh:
        go.need("1.26")
        modules.write(HARNESS, MINORS[release])
    if up_to_date(release):
        return
    go.need(_go_version(release))
    _LOG.info("dm-%s: building of Kubernetes %s (minutes at first)", release, MINORS[release])
    began = time.monotonic()
    build(release)
    seconds, megabytes = time.monotonic() - began, program(release).stat().st_size / 1e6
    _LOG.info("dm-%s: built in %.1f s, %.1f MB", release, seconds, megabytes)


def program(release: str) -> Path:
    """Where the program of a release is, once built."""
    return PROGRAMS / f"dm-{release}"


def up_to_date(release: str) -> bool:
    """Whether the program there was built of these sources."""
    stamp = _stamp(release)
    return program(release).exists() and stamp.exists() and stamp.read_text() == _digest(release)


def build(release: str) -> None:
    """Build the program of a release; one that runs meanwhile stays as it is.

    Raises:
        GoFailedError: the build failed.

    """
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    new = PROGRAMS / f"dm-{release}.{os.getpid()}"
    modfile, tag = f"mods/{release}/go.mod", "k" + release.replace(".", "")
    go.run(HARNESS, "build", *_FLAGS, "-modfile", modfile, "-tags", tag, "-o", str(new), ".")
    new.replace(program(release))
    _stamp(release).write_text(_digest(release))


def _go_version(release: str) -> str:
    text = (HARNESS / "mods" / release / "go.mod").read_text()
    found = re.search(r"^go (\S+)$", text, re.MULTILINE)
    assert found, f"mods/{release}/go.mod names no Go version"
    return found[1]


def _stamp(release: str) -> Path:
    return PROGRAMS / f"dm-{release}.sources"


def _digest(release: str) -> str:
    digest = hashlib.sha256(repr(_FLAGS).encode())
    for path in (*sorted(HARNESS.glob("*.go")), *sorted((HARNESS / "mods" / release).iterdir())):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
