"""A child process that answers, hangs, crashes or raises."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deviceplugin.probe import ProbeFailedError, call

CODE = """
import ctypes, os, subprocess, sys, time

def add(left, right):
    return {"sum": left + right}

def hang():
    time.sleep(600)

def hang_with_a_helper():
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)

def crash():
    ctypes.string_at(0)

def give_up(status):
    print("no device", file=sys.stderr, flush=True)
    os._exit(status)

def fail():
    raise KeyError("AMDSMI_LIB")

def chat():
    print("hello from a library")
    os.system("echo hello from below")
    return 7

def odd():
    return object()
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that only the child imports."""
    (tmp_path / "probed.py").write_text(CODE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield "probed"
    assert "probed" not in sys.modules


def test_answer() -> None:
    """Arguments go out and the result comes back."""
    assert call("probed:add", [2, 3]) == {"sum": 5}


def test_prints_do_not_matter() -> None:
    """What a library prints, even from a process of its own, does not spoil the answer."""
    assert call("probed:chat") == 7


@pytest.mark.parametrize("function", ["hang", "hang_with_a_helper"])
def test_hang(function: str) -> None:
    """A child that hangs is ended with all that it started, at the deadline."""
    began = time.monotonic()
    with pytest.raises(ProbeFailedError, match="no answer within 1 s; its process was ended"):
        call(f"probed:{function}", timeout=1)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("function", "args", "words"),
    [
        pytest.param("crash", [], "died from SIGSEGV", id="crash"),
        pytest.param("give_up", [3], "status 3 and no answer; it said: no device", id="exit"),
        pytest.param("give_up", [0], "status 0 and no answer", id="exit without an error"),
        pytest.param("fail", [], "raised KeyError: 'AMDSMI_LIB'", id="raises"),
        pytest.param("odd", [], "raised TypeError", id="result that cannot be carried"),
        pytest.param("nothing", [], "raised AttributeError", id="no such function"),
    ],
)
def test_no_answer(function: str, args: list[int], words: str) -> None:
    """Whatever happens to the child is told in one plain sentence."""
    with pytest.raises(ProbeFailedError, match=words):
        call(f"probed:{function}", args)


def test_no_such_module() -> None:
    """A library that is not installed is the child's error."""
    with pytest.raises(ProbeFailedError, match="raised ModuleNotFoundError"):
        call("not_there:function")
