"""The image: pinned, built from the lock, of the files that it needs and no others."""

import re
import shlex
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

BASE = re.compile(r"^docker\.io/library/python:(3\.\d+\.\d+)-slim-\w+$")
PIN = re.compile(r"^([\w.-]+)==(\S+?)(?: ; .*)?((?: --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)


@pytest.fixture(scope="session")
def dockerfile(root: Path) -> list[list[str]]:
    """Return the Dockerfile's instructions, each as its words."""
    text = (root / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [[name, *shlex.split(rest)] for name, _, rest in (line.partition(" ") for line in lines)]


@pytest.fixture(scope="session")
def setup(root: Path) -> ConfigParser:
    """Return setup.cfg."""
    parser = ConfigParser()
    parser.read(root / "setup.cfg")
    return parser


def test_every_stage_begins_from_the_pinned_base(dockerfile: list[list[str]]) -> None:
    """One argument names the base of all stages, down to Python's patch release."""
    [base] = [words[1] for words in dockerfile if words[1].startswith("PYTHON_IMAGE=")]
    assert BASE.match(base.partition("=")[2])
    assert {words[1] for words in dockerfile if words[0] == "FROM"} == {"${PYTHON_IMAGE}"}


def test_the_base_has_a_python_that_we_run_on(
    dockerfile: list[list[str]], setup: ConfigParser
) -> None:
    """The base's Python is one that the package says it supports."""
    [base] = [words[1] for words in dockerfile if words[1].startswith("PYTHON_IMAGE=")]
    found = BASE.match(base.partition("=")[2])
    assert found
    assert SpecifierSet(setup["options"]["python_requires"]).contains(found[1])


def test_whatever_is_installed_has_a_hash_or_was_built_here(dockerfile: list[list[str]]) -> None:
    """No pip command takes what no lock names, and none compiles."""
    commands = [words for words in _commands(dockerfile) if "pip" in words]
    assert len(commands) == 4
    for words in commands:
        locked = {"--require-hashes", "--only-binary"} <= set(words)
        assert locked or "--no-deps" in words, " ".join(words)
        assert locked or {"--no-index", "--no-build-isolation"} & set(words), " ".join(words)


def test_nothing_is_compiled_or_fetched_besides(dockerfile: list[list[str]]) -> None:
    """So the image can be built for each platform that the locked wheels are there for."""
    programs = {Path(words[0]).name for words in _commands(dockerfile)}
    assert programs == {"pip", "python", "find"}


def test_it_is_the_daemons_command_with_no_arguments(dockerfile: list[list[str]]) -> None:
    """`docker run IMAGE version` works, and no vendor is built in."""
    last = {words[0]: words[1:] for words in dockerfile}
    assert last["ENTRYPOINT"] == ["[deviceplugin]"]
    assert "CMD" not in last
    assert last["USER"] == ["0:0"]


def test_the_context_has_what_is_copied_and_nothing_else(
    root: Path, dockerfile: list[list[str]]
) -> None:
    """Each thing copied exists and is let in by .dockerignore, which lets in no more."""
    copied = {
        source
        for words in dockerfile
        if words[0] == "COPY" and not words[1].startswith("--from")
        for source in words[1:-1]
    }
    assert [source for source in copied if not (root / source).exists()] == []
    lines = (root / ".dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert {_let_in(source, let_in) for source in copied} == let_in


def test_files_of_the_package_are_copied(dockerfile: list[list[str]], setup: ConfigParser) -> None:
    """The wheel has its readme, its licence and the folders that are links in the package."""
    copied = {word for words in dockerfile if words[0] == "COPY" for word in words[1:-1]}
    readme = setup["metadata"]["long_description"].removeprefix("file: ")
    assert {readme, setup["metadata"]["license_files"], "api", "configs", "deviceplugin"} <= copied


def test_the_lock_meets_what_the_package_asks_for(root: Path, setup: ConfigParser) -> None:
    """Each requirement is pinned to a version that it allows."""
    lines = setup["options"]["install_requires"].splitlines()
    wanted = [Requirement(line) for line in lines if line and not line.startswith("#")]
    pins = _pins(root / "daemonset/image/runtime.txt")
    assert len(wanted) >= 5
    assert {
        each.name: each.specifier.contains(pins[each.name]) for each in wanted
    } == dict.fromkeys((each.name for each in wanted), True)


def test_the_lock_meets_what_the_build_asks_for(root: Path) -> None:
    """The build's own requirements are pinned too."""
    asked = tomllib.loads((root / "pyproject.toml").read_text())["build-system"]["requires"]
    pins = _pins(root / "daemonset/image/build.txt")
    wanted = [Requirement(line) for line in asked]
    assert [each.name for each in wanted if not each.specifier.contains(pins[each.name])] == []


@pytest.mark.parametrize("name", ["runtime.txt", "build.txt"])
def test_every_line_of_a_lock_is_a_pin_with_hashes(root: Path, name: str) -> None:
    """Nothing in it is a range, a link or without a hash; and it says how it was made."""
    text = (root / "daemonset/image" / name).read_text()
    lines = _joined(text)
    assert len(lines) == len(PIN.findall("\n".join(lines))) > 0
    assert "make lock" in text


def test_the_label_is_the_packages_licence(root: Path, setup: ConfigParser) -> None:
    """The image says the licence that the package has."""
    text = (root / "Dockerfile").read_text()
    found = re.search(r'image\.licenses="(.*?)"', text)
    assert found
    assert found[1] == setup["metadata"]["license"]


def _commands(dockerfile: list[list[str]]) -> list[list[str]]:
    """The programs of all RUN lines, split at &&."""
    runs = [" ".join(words[1:]) for words in dockerfile if words[0] == "RUN"]
    return [command.split() for line in runs for command in line.split(" && ")]


def _let_in(source: str, let_in: set[str]) -> str:
    """The entry of .dockerignore that lets a source in, or ""."""
    return next((each for each in let_in if f"{source}/".startswith(f"{each}/")), "")


def _pins(lock: Path) -> dict[str, str]:
    found = PIN.findall("\n".join(_joined(lock.read_text())))
    return {canonicalize_name(name): version for name, version, _ in found}


def _joined(lock: str) -> list[str]:
    """A lock's requirements, one a line."""
    text = re.sub(r"\s*\\\n\s*", " ", lock)
    return [line for line in text.splitlines() if line and not line.startswith("#")]
