"""Writes what the docs repeat of the code: run by ``make docs``, checked by the tests.

Between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` stands generated text.
"""

import argparse
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

from deviceplugin.config.settings import Timings, add_run_flags
from deviceplugin.observe.families import families
from deviceplugin.observe.samples import Clock
from deviceplugin.observe.status import LockStatus, Status
from deviceplugin.vendors.nvidia import xids

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/user/health.md", "docs/user/metrics.md", "docs/user/command-line.md")


def xid_table() -> Iterator[str]:
    """Neighbouring XIDs with the same rule share a row."""
    yield "| XID | what | action | source |"
    yield "|---|---|---|---|"
    by_rule = itertools.groupby(sorted(xids.TABLE.items()), key=lambda item: item[1])
    for rule, group in by_rule:
        numbers = ", ".join(str(number) for number, _ in group)
        yield f"| {numbers} | {rule.name} | {rule.action.value} | {rule.source} |"
    other = xids.UNKNOWN
    yield f"| any other | {other.name} | {other.action.value} | {other.source} |"


def metric_table() -> Iterator[str]:
    """Every series there can be, with its type and labels."""
    yield "| metric | type | labels | what |"
    yield "|---|---|---|---|"
    full = Status(vendor="nvidia", lock=LockStatus(held=True))
    labels = dict(_golden_labels())
    for family in families(full, Clock.now()):
        name = family.name + ("_total" if family.type == "counter" else "")
        yield f"| `{name}` | {family.type} | {labels.get(name, '')} | {family.documentation} |"


def _golden_labels() -> Iterator[tuple[str, str]]:
    """Labels as the golden file of the metrics' interface has them."""
    for line in (ROOT / "tests" / "golden" / "metrics.txt").read_text().splitlines():
        name, _kind, *labels = line.split()
        yield name, " ".join(labels).strip("{}").replace(",", ", ")


def timing_table() -> Iterator[str]:
    """Every time limit, its default and why."""
    yield "| `--timing` | seconds | what |"
    yield "|---|---|---|"
    for limit in fields(Timings):
        name = limit.name.replace("_", "-")
        yield f"| `{name}` | {limit.default:g} | {limit.metadata['text']} |"


def run_help() -> Iterator[str]:
    """The flags of ``run``, as its --help prints them at 100 columns."""
    parser = argparse.ArgumentParser(
        prog="deviceplugin run",
        usage="deviceplugin run VENDOR [flags]",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),
        add_help=False,
    )
    add_run_flags(parser)
    yield "```"
    yield from parser.format_help().rstrip().splitlines()
    yield "```"


def example_table() -> Iterator[str]:
    """Each example's first comment line is what it shows."""
    yield "| example | shows |"
    yield "|---|---|"
    for path in sorted((ROOT / "configs").glob("*.yaml")):
        yield f"| [{path.name}](configs/{path.name}) | {_first_sentence(path.read_text())} |"


def _first_sentence(text: str) -> str:
    comments = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    words = [line.removeprefix("#").strip() for line in comments if "language-server" not in line]
    return re.split(r"[.:] ", " ".join(words).strip() + " ")[0]


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "xids": xid_table,
    "metrics": metric_table,
    "run": run_help,
    "timings": timing_table,
    "examples": example_table,
}


def fresh(text: str) -> str:
    """The page with its generated parts made anew."""

    def part(match: re.Match[str]) -> str:
        body = "\n".join(PARTS[match["name"]]())
        return f"<!-- begin {match['name']} -->\n{body}\n<!-- end {match['name']} -->"

    return re.sub(
        r"<!-- begin (?P<name>\w+) -->\n.*?<!-- end (?P=name) -->", part, text, flags=re.DOTALL
    )


def main() -> int:
    """Write the pages; with --check only say which are stale, and exit with 1."""
    check = "--check" in sys.argv[1:]
    stale = [
        page for page in PAGES if fresh((ROOT / page).read_text()) != (ROOT / page).read_text()
    ]
    for page in stale:
        if check:
            sys.stdout.write(f"{page} is stale: run `make docs`\n")
        else:
            (ROOT / page).write_text(fresh((ROOT / page).read_text()))
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
