"""Follows the README's Deploy section, command by command."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.node.cluster import environment
from tests.cluster.node.paths import BUILD, NODE, ROOT
from tests.cluster.node.shell import run

_SECTION = re.compile(r"<!-- deploy begins -->(.*)<!-- deploy ends -->", re.DOTALL)
_BLOCK = re.compile(r"^```\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_DOCKER = '#!/bin/sh\nCLUSTER_BUILD={build} exec {python} -m tests.cluster docker "$@"\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One block of commands, and what it printed."""

    commands: str
    output: str


def blocks() -> list[str]:
    """The section's blocks of commands, as they stand."""
    section = _SECTION.search((ROOT / "README.md").read_text())
    assert section, "README.md has no Deploy section between its marks"
    return _BLOCK.findall(section[1])


def follow(folder: Path) -> list[Step]:
    """Do what the section says, in a checkout of its own and in one shell.

    Two things differ from what a reader does: the node's name is this node's, and `docker` is
    buildah, whose push loads the image into the cluster.

    Raises:
        AssertionError: a command failed.

    """
    checkout = _copy(folder / "checkout")
    tools = folder / "bin"
    tools.mkdir()
    docker = tools / "docker"
    docker.write_text(_DOCKER.format(build=BUILD, python=sys.executable))
    docker.chmod(0o755)
    steps = [block.replace("my-gpu-node", NODE) for block in blocks()]
    script = "\n".join(f"{step}\necho '--- {n}'" for n, step in enumerate(steps))
    known = environment()
    ended = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],
        cwd=checkout,
        env={**known, "PATH": f"{tools}:{known['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"the README's commands failed:\n{ended.stdout}"
    outputs = re.split(r"^--- \d+\n", ended.stdout, flags=re.MULTILINE)
    return [Step(commands=s, output=o) for s, o in zip(steps, outputs, strict=False)]


def _copy(target: Path) -> Path:
    """A checkout beside ours: what git does not ignore, as it lies there."""
    target.mkdir()
    files = run("git", "ls-files", "-zco", "--exclude-standard", cwd=ROOT).split("\0")
    present = [name for name in files if name and (ROOT / name).exists()]
    pack = subprocess.run(
        ["tar", "-cf", "-", *present], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    subprocess.run(["tar", "-xf", "-"], cwd=target, input=pack.stdout, check=True)
    return target
