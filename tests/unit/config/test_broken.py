"""Ten thousand broken configs: always a clear refusal, never a traceback."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from deviceplugin.config import document
from deviceplugin.config.document import DocumentError
from deviceplugin.config.load import ConfigInvalidError, load
from deviceplugin.config.rules import Problem
from deviceplugin.inventory import Inventory
from deviceplugin.model import Device, DeviceId, ResourceName
from deviceplugin.sharing.plan import plan

BATCHES = 20
BATCH = 500

Mutation = Callable[[random.Random, bytes], bytes]

ODD_VALUES = (
    b"", b"~", b"true", b"-1", b"0", b"1.5", b'"4"', b"10000000", b"[]", b"{}", b"[[]]", b"*a",
    b"&a", b"!!binary x", b"!!python/object:x", b"<<", b"all", b"'", b'"', b"\xff", b"\x00",
    b"\xef\xbb\xbf", b"{{ x }}", b"|", b"> x", b"@", b"GPU-", b"model:", b"0:0", b"9" * 400,
    b".nan", b"-.inf", b"0x", b"1:30", b"2024-01-01", b"? ", b"%", b"- -", b"# ", b"\xe2\x80\xae",
    b"nvidia.com/", b"amd.com/gpu", b"A", b"x" * 300, b"\r", b"\xc2\x85", b"\xed\xa0\x80",
)  # fmt: skip


def spot(rng: random.Random, text: bytes) -> int:
    """Choose a place."""
    return rng.randrange(len(text) + 1)


def cut(rng: random.Random, text: bytes) -> bytes:
    """Keep the beginning only, as a half-written file does."""
    return text[: spot(rng, text)]


def drop(rng: random.Random, text: bytes) -> bytes:
    """Take some bytes out."""
    place = spot(rng, text)
    return text[:place] + text[place + rng.randint(1, 8) :]


def insert(rng: random.Random, text: bytes) -> bytes:
    """Put something odd anywhere."""
    place = spot(rng, text)
    return text[:place] + rng.choice(ODD_VALUES) + text[place:]


def flip(rng: random.Random, text: bytes) -> bytes:
    """Change one byte to any other."""
    place = rng.randrange(len(text)) if text else 0
    return text[:place] + bytes([rng.randrange(256)]) + text[place + 1 :]


def on_lines(change: Callable[[random.Random, list[bytes], int], None]) -> Mutation:
    """Make a mutation of one that works on lines."""

    def mutate(rng: random.Random, text: bytes) -> bytes:
        lines = text.split(b"\n")
        change(rng, lines, rng.randrange(len(lines)))
        return b"\n".join(lines)

    return mutate


def line_twice(_rng: random.Random, lines: list[bytes], at: int) -> None:
    """Write a line twice."""
    lines.insert(at, lines[at])


def line_elsewhere(rng: random.Random, lines: list[bytes], at: int) -> None:
    """Move a line."""
    lines.insert(rng.randrange(len(lines)), lines.pop(at))


def line_indented(rng: random.Random, lines: list[bytes], at: int) -> None:
    """Indent a line differently, with tabs sometimes."""
    lines[at] = rng.choice([b" ", b"  ", b"\t", b"    "]) * rng.randint(0, 4) + lines[at].lstrip()


def value_odd(rng: random.Random, lines: list[bytes], at: int) -> None:
    """Put an odd value behind a key."""
    key, colon, _ = lines[at].partition(b":")
    lines[at] = key + colon + b" " + rng.choice(ODD_VALUES)


def key_misspelt(rng: random.Random, lines: list[bytes], at: int) -> None:
    """Misspell a key, or change its case."""
    key, colon, rest = lines[at].partition(b":")
    wrong = rng.choice([key.upper(), key.title(), key[:-1], key + b"s", key[::-1]])
    lines[at] = wrong + colon + rest


def branch_elsewhere(rng: random.Random, lines: list[bytes], at: int) -> None:
    """Copy the end of the file to another place."""
    lines[rng.randrange(len(lines)) : 0] = lines[at:]


MUTATIONS: tuple[Mutation, ...] = (
    cut,
    drop,
    insert,
    flip,
    *map(
        on_lines,
        (line_twice, line_elsewhere, line_indented, value_odd, key_misspelt, branch_elsewhere),
    ),
)


@pytest.fixture(scope="module")
def good(configs: Path) -> tuple[bytes, ...]:
    """Return the examples, without the comments, which break nothing."""
    texts = (
        path.read_text()
        for path in sorted(configs.glob("*.yaml"))
        if not path.name.startswith("amd")
    )
    plain = ("\n".join(line for line in text.split("\n") if "#" not in line) for text in texts)
    dense = b'{"version": "v1", "sharing": {"timeSlicing": {"resources": [{"name": "gpu",\n'
    more = b'"replicas": 4, "devices": ["0", 1]}]}}, "health": {"xids": {"79": "ignore"}}}\n'
    return (*(text.strip().encode() for text in plain), dense + more)


GPUS = tuple(
    Device(id=DeviceId(f"GPU-{index}"), resource=ResourceName("nvidia.com/gpu"), index=index)
    for index in range(4)
)


def findings(content: bytes) -> tuple[Problem, ...]:
    """Read bytes as the daemon does; () when they are a valid config, which can be planned."""
    try:
        config = load("nvidia", document.decode(content), file="f.yaml")
    except DocumentError as error:
        return (error.problem("f.yaml"),)
    except ConfigInvalidError as error:
        return error.problems
    node = Inventory(devices={gpu.id: gpu for gpu in GPUS}, scanned=True, config=config)
    assert set(plan(node).targets) == {gpu.id for gpu in GPUS}
    return ()


@pytest.mark.parametrize("batch", range(BATCHES))
def test_broken(good: tuple[bytes, ...], batch: int) -> None:
    """Each broken text is refused with lines and remedies; those still valid are set aside."""
    rng = random.Random(batch)  # noqa: S311 - repeatable, not secret
    valid = 0
    for _ in range(BATCH):
        content = rng.choice(good)
        for _ in range(rng.choice((1, 1, 2, 5))):
            content = rng.choice(MUTATIONS)(rng, content)
        problems = findings(content)
        valid += not problems
        for problem in problems:
            check(problem, content)
    assert BATCH // 10 < valid < BATCH // 2  # else the mutations test nothing


def check(problem: Problem, content: bytes) -> None:
    """Require a line that exists, one line of text, and no excuse of our own."""
    last = content.count(b"\n") + content.count(b"\r") + content.count(b"\xc2\x85") + 1
    assert 1 <= problem.line <= last + 1, (problem, content)
    assert str(problem).startswith(f"f.yaml:{problem.line}: "), problem
    assert str(problem).isprintable(), (problem, content)
    assert problem.found, (problem, content)
    assert problem.remedy, (problem, content)
    assert "our reader" not in problem.found, (problem, content)
