"""``python -m bench [--quick] [NAME ...]``: measure, print a table, write JSON."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench import latency, reaction, resources, topology
from bench.figures import Bench, Effort, Figure, table, write
from bench.process import BenchFailedError

BENCHES: dict[str, Bench] = {
    "allocate": latency.allocate,
    "preferred": latency.preferred,
    "topology": topology.topology,
    "config": reaction.config,
    "restart": reaction.restart,
    "event": reaction.event,
    "poll": reaction.poll,
    "start": reaction.start,
    "memory": resources.memory,
    "cpu": resources.cpu,
    "restarts": resources.restarts,
    "cuts": resources.cuts,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the figures.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="few samples: shows that it works")
    parser.add_argument(
        "--json", type=Path, default=Path("build/bench.json"), metavar="FILE", help="(%(default)s)"
    )
    return parser


def _measure(name: str, effort: Effort, console: Console) -> list[Figure] | None:
    """Run one bench; None when it could not be measured, which is said."""
    console.print(f"[dim]{name}: {BENCHES[name].__doc__}[/dim]", highlight=False)
    try:
        return list(BENCHES[name](effort))
    except BenchFailedError as error:
        console.print(f"{name} failed: {error}", markup=False, highlight=False)
        return None


def main(arguments: list[str] | None = None) -> int:
    """Measure; 0 when everything asked for was measured, whether targets are met or not."""
    parser = _parser()
    options = parser.parse_args(arguments)
    wrong = sorted(set(options.names) - BENCHES.keys())
    if wrong:
        parser.error(f"no bench {', '.join(wrong)}: write some of {', '.join(BENCHES)}")
    console, effort = Console(stderr=True), Effort(quick=options.quick)
    measured = [_measure(name, effort, console) for name in options.names or BENCHES]
    figures = [figure for found in measured if found for figure in found]
    table(figures, Console(width=None if sys.stdout.isatty() else 140))
    write(figures, options.json)
    return 1 if None in measured else 0


if __name__ == "__main__":
    sys.exit(main())
