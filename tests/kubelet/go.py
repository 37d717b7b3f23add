"""The Go tool, asked in one way everywhere, so that all builds share one cache."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

_UNREACHABLE = re.compile(r"dial tcp|proxyconnect|no such host|i/o timeout|connection refused")
_ENV = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local"}


class GoMissingError(Exception):
    """Go is not here, or too old: what needs it is left out, and nothing is broken."""


class GoFailedError(Exception):
    """Go is here and failed; the text says of what, and what to do."""


def need(version: str) -> None:
    """Check that Go is at least of a version such as "1.26.0".

    Raises:
        GoMissingError: it is not; the text says which one to install.

    """
    install = f"install Go {version} or newer (https://go.dev/dl) and put it on PATH"
    if shutil.which("go") is None:
        raise GoMissingError(f"Go is missing: {install}")
    found = run(Path.cwd(), "env", "GOVERSION").strip().removeprefix("go")
    if _numbers(found) < _numbers(version):
        raise GoMissingError(f"Go {found} is too old: {install}")


def run(folder: Path, *arguments: str) -> str:
    """Run it in a folder; what it printed.

    Raises:
        GoFailedError: it failed.

    """
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env={**os.environ, **_ENV},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise GoFailedError(_why(done.stderr))
    return done.stdout


def upstream(folder: Path, module: str, release: str) -> str:
    """Fetch a module; returns its own go.mod.

    Raises:
        GoFailedError: it could not be downloaded.

    """
    found = json.loads(run(folder, "mod", "download", "-json", f"{module}@v{release}"))
    return Path(found["GoMod"]).read_text()


def _why(log: str) -> str:
    lines = [line for line in log.splitlines() if not line.startswith("go: downloading")]
    text = "\n".join(lines[-20:])
    if _UNREACHABLE.search(text):
        text += "\nThe module proxy was not reached: set GOPROXY to one that is, or come online."
    return text


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
