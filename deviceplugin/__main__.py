"""Arguments to settings to what to run; exit codes; nothing else.

Exit codes: 0 done, 1 could not do its job, 2 wrong use.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

from deviceplugin.config.settings import add_run_flags
from deviceplugin.errors import DevicePluginError, WrongUseError

# What a command needs is imported where it runs: `run` must answer its probes before the
# config and gRPC libraries are loaded, and `--help` must not load them at all.
# ruff: noqa: PLC0415


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="deviceplugin",
        description="Serves this node's GPUs to the kubelet.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_simulate(commands)
    _add_check(commands)
    commands.add_parser("version", help="print the version").set_defaults(main=_version)
    return parser


# argparse has no public name for what add_subparsers returns.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001


def _add_run(commands: Commands) -> None:
    run = commands.add_parser(
        "run",
        help="the daemon: serve one vendor's devices",
        epilog="Every flag has an environment variable (DEVICEPLUGIN_PLUGIN_DIR for --plugin-dir);"
        " a flag wins. Several timings are joined by commas in DEVICEPLUGIN_TIMING.",
    )
    run.add_argument("vendor", metavar="VENDOR", help="nvidia or amd")
    add_run_flags(run)
    run.set_defaults(main=_run)


def _add_simulate(commands: Commands) -> None:
    simulate = commands.add_parser(
        "simulate", help="a whole node without hardware: kubelet, daemon, pods, and a live view"
    )
    simulate.add_argument(
        "machine",
        metavar="MACHINE",
        nargs="?",
        default="h100x8",
        help="a shipped name or a YAML file (h100x8)",
    )
    simulate.add_argument(
        "--for",
        dest="seconds",
        metavar="SECONDS",
        type=float,
        help="end after so long (without a terminal: 60)",
    )
    simulate.add_argument("--json", action="store_true", help="print one event a line, as JSON")
    simulate.add_argument(
        "--config-dir",
        metavar="DIR",
        help="folder of the config to edit (a fresh one with an example)",
    )
    simulate.add_argument(
        "--metrics-address",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="the first daemon's (a free port); other vendors' have free ones",
    )
    simulate.set_defaults(main=_simulate)


def _add_check(commands: Commands) -> None:
    check = commands.add_parser(
        "check", help="validate a config and say what it would change; exit 1 when it is invalid"
    )
    check.add_argument("vendor", metavar="VENDOR", help="nvidia or amd")
    check.add_argument("file", metavar="FILE", help="the config, YAML or JSON")
    check.add_argument("--simulate", metavar="MACHINE", help="plan for a simulated machine")
    check.add_argument("--state-dir", metavar="DIR", help="compare with its last good config")
    flags = ("--plugin-dir", "--sysfs", "--devfs", "--procfs", "--driver-root", "--nvml-library")
    for flag in flags:
        check.add_argument(flag, metavar="PATH", help="as for run")
    check.set_defaults(main=_check)


def _run(arguments: argparse.Namespace) -> int:
    from deviceplugin import launch

    return launch.run(arguments, os.environ)


def _simulate(arguments: argparse.Namespace) -> int:
    from deviceplugin.simulation import node

    return node.run(
        machine=arguments.machine,
        seconds=arguments.seconds,
        as_json=arguments.json,
        config_dir=arguments.config_dir,
        metrics_address=arguments.metrics_address,
    )


def _check(arguments: argparse.Namespace) -> int:
    from deviceplugin import launch

    return launch.check(arguments, os.environ)


def _version(_arguments: argparse.Namespace) -> int:
    from importlib.metadata import version

    sys.stdout.write(version("deviceplugin") + "\n")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = _parser().parse_args(argv)
    # gRPC's own lines ("Got goaway") say nothing to an operator and break the live view.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    command: Callable[[argparse.Namespace], int] = arguments.main
    try:
        return command(arguments)
    except WrongUseError as error:
        sys.stderr.write(f"deviceplugin: {error}\n")
        return 2
    except DevicePluginError as error:
        sys.stderr.write(f"deviceplugin: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
