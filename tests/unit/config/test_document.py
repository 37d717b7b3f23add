"""YAML text as a tree: what scalars mean, and where the limits are."""

import time

import pytest

from deviceplugin.config import document
from deviceplugin.config.document import DocumentError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ('"4"', "4"),
        ("'4'", "4"),
        ("-1", -1),
        ("0", 0),
        ("1_000", 1000),
        ("0x10", 16),
        ("010", "010"),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("yes", True),
        ("Off", False),
        ("true", True),
        ("~", None),
        ("null", None),
        ("''", ""),
        ("!!str 4", "4"),
        ("!!int 4", 4),
        ("GPU-1e5", "GPU-1e5"),
        ("1" * 5000, "1" * 5000),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_scalars(text: str, value: object) -> None:
    """A plain scalar means what the incumbents' parser takes it for; base 60 is text."""
    root = document.read(f"key: {text}")
    assert root is not None
    found = document.plain(root)["key"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "\n\n", "   \n"], ids=repr)
def test_nothing(text: str) -> None:
    """A text without content has no tree."""
    assert document.read(text) is None


def test_json_is_yaml() -> None:
    """JSON reads as it stands."""
    root = document.read('{"a": [1, {"b": null}], "c": "x"}')
    assert root is not None
    assert document.plain(root) == {"a": (1, {"b": None}), "c": "x"}


def test_lines() -> None:
    """Each key has its own line, each item its first."""
    root = document.read("a:\n  b: 1\n  c:\n  - x\n  -\n    d: 2\n")
    assert root is not None
    lines = document.lines(root)
    assert lines["a", "b"] == 2
    assert lines["a", "c"] == 3
    assert lines["a", "c", 0] == 4
    assert lines["a", "c", 1, "d"] == 6


def test_merge_keys() -> None:
    """With <<, what a mapping says itself wins over what it merges."""
    text = "base: &base {x: 1, y: 1}\nuse:\n  <<: *base\n  y: 2\n"
    root = document.read(text)
    assert root is not None
    assert document.plain(root)["use"] == {"y": 2, "x": 1}


def bomb() -> str:
    """Make a text whose aliases stand for 9^12 values."""
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 13))
    return f"a0: &a0 [x, x, x, x, x, x, x, x, x]\n{levels}"


def chain() -> str:
    """Make a text whose aliases nest a thousand deep."""
    return "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 1000))


BAD = {
    "tab": ("a:\n\tb: 1\n", 2, "spaces, not tabs"),
    "colon": ("a: 1\nb: c: d\n", 2, "correct the YAML"),
    "unclosed": ("a: [1, 2\nb: 3\n", 2, "correct the YAML"),
    "two documents": ("a: 1\n---\nb: 2\n", 2, "one document"),
    "unknown alias": ("a: *x\n", 1, "write the value"),
    "alias inside itself": ("a: &x [*x]\n", 1, "write the value"),
    "foreign tag": ("a: !!python/object:os.system {}\n", 1, "remove the tag"),
    "set": ("a: !!set {b}\n", 1, "remove the tag"),
    "tag that does not fit": ("a: !!int x\n", 1, "remove the tag"),
    "template": ("a: 1\nb: {{ .Values.b }}\n", 2, "unrendered template"),
    "list as key": ("? [a]\n: b\n", 1, "plain word"),
    "NUL": ("a: 1\nb: \x00\n", 2, "remove it"),
    "escape": ("a: \x1b[0m\n", 1, "remove it"),
    "surrogate": ("a: \ud800\n", 1, "remove it"),
    "deep flow": ("a: " + "[" * 100_000, 1, "nest less"),
    "deep block": ("".join(" " * n + "a:\n" for n in range(500)), 33, "nest less"),
    "deep aliases": (chain(), 30, "nest less"),
    "bomb": (bomb(), 5, "write fewer"),
    "many": ("a: 1\n" * 30_000, 10_001, "write fewer"),
    "big": ("# " + "x" * (10 << 20), 1, "at most 1,048,576 bytes"),
    "merge of a scalar": ("a:\n  <<: 1\n", 2, "remove it"),
    "reserved": ("a: @b\n", 1, "correct the YAML"),
    "directive": ("%YAML 9.9\n---\na: 1\n", 1, "correct the YAML"),
}


@pytest.mark.parametrize(("text", "line", "remedy"), BAD.values(), ids=BAD)
def test_refused(text: str, line: int, remedy: str) -> None:
    """What cannot be read is refused at once, with its line and what to do."""
    begun = time.monotonic()
    with pytest.raises(DocumentError) as caught:
        document.read(text)
    assert time.monotonic() - begun < 2
    assert caught.value.line == line
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("content", "line", "found"),
    [
        (b"a: 1\nb: \xff\n", 2, "0xff"),
        ("a: 1".encode("utf-16"), 1, "0xff"),
        (b"x" * ((1 << 20) + 1), 1, "1,048,577 bytes"),
    ],
    ids=["latin", "utf-16", "big"],
)
def test_bytes_refused(content: bytes, line: int, found: str) -> None:
    """Bytes that are no UTF-8 text, or too many, are refused before any parsing."""
    with pytest.raises(DocumentError) as caught:
        document.decode(content)
    assert caught.value.line == line
    assert found in caught.value.found


def test_byte_order_mark() -> None:
    """A byte order mark, as some editors write it, is dropped."""
    root = document.read(document.decode(b"\xef\xbb\xbfa: 1\n"))
    assert root is not None
    assert document.plain(root) == {"a": 1}


def test_path_of_odd_keys() -> None:
    """A key that is not a word is quoted in a path."""
    assert document.path(("a", 0, "b c", "x" * 99)).startswith('a[0]."b c"."xxx')
