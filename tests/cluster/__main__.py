"""A single-node Kubernetes for a person: ``python -m tests.cluster up``."""

import argparse
import os
import sys
from pathlib import Path

from tests.cluster.node import cluster, images, packages, programs
from tests.cluster.node.paths import program
from tests.cluster.node.shell import ClusterError, say
from tests.kubelet.go import GoFailedError, GoMissingError

IMAGE = "localhost/deviceplugin:0.1.0"


def _up() -> None:
    packages.check()
    programs.build()
    cluster.up()
    built = images.build(IMAGE)
    images.load(IMAGE)
    say(f"{IMAGE}: {built.size / 1e6:.0f} MB, {built.own / 1e6:.0f} MB of it ours")
    say("`python -m tests.cluster kubectl …` asks it; `python -m tests.cluster down` ends it")


def _docker(words: list[str]) -> None:
    """Stand in for the two commands of docker's that the README has."""
    match words:
        case ["build", "-t", name, context]:
            images.build(name, context=Path(context).absolute())
        case ["push", name]:
            images.load(name)
        case _:
            raise ClusterError(f"docker {' '.join(words)}: only build -t NAME FOLDER and push NAME")


def _kubectl(words: list[str]) -> None:
    os.execve(program("kubectl"), ["kubectl", *words], cluster.environment())  # noqa: S606 - no shell is wanted


def main() -> int:
    """Do what is asked; 1 when it failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument(
        "verb", choices=("packages", "build", "pin", "up", "down", "kubectl", "docker")
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, help="for kubectl and docker")
    asked = parser.parse_args()
    verbs = {
        "packages": packages.install,
        "build": programs.build,
        "pin": programs.pin,
        "up": _up,
        "down": cluster.down,
        "docker": lambda: _docker(asked.words),
        "kubectl": lambda: _kubectl(asked.words),
    }
    try:
        verbs[asked.verb]()
    except (ClusterError, GoFailedError, GoMissingError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
