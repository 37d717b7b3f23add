"""Whether this machine can run the real device manager, and how."""

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

_ORDINARY_USER = ("unshare", "--map-root-user", "--mount")


class CannotRunError(Exception):
    """The text says what is missing, and what to do."""


@functools.cache
def command(program: Path) -> tuple[str, ...]:
    """Find the command line that starts a program of the harness.

    It needs a mount namespace of its own: root has one, an ordinary user one in which it is root.

    Raises:
        CannotRunError: the program is not built, or neither way works here.

    """
    if not program.exists():
        msg = f"{program.name} is not built: `make test-kubelet` does, with Go"
        raise CannotRunError(msg)
    why = _trial((str(program),))
    if not why:
        return (str(program),)
    if shutil.which("unshare") and not _trial((*_ORDINARY_USER, str(program))):
        return (*_ORDINARY_USER, str(program))
    msg = f"{program.name} needs root, or unshare with user namespaces: {why}"
    raise CannotRunError(msg)


def _trial(words: tuple[str, ...]) -> str:
    """Start and end it; what it complains of."""
    with tempfile.TemporaryDirectory(prefix="dp") as root:
        done = subprocess.run(
            [*words, "-root", root], input="", capture_output=True, text=True, check=False
        )
    return done.stderr.strip() if done.returncode else ""
