"""Settings of the process itself: flags over environment over defaults.

What is shared and how stands in the config file; here is only where things are
and how long to wait. Every flag has an environment variable ``DEVICEPLUGIN_<FLAG>``.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from deviceplugin.errors import WrongUseError

PREFIX = "DEVICEPLUGIN_"

METRICS_PORTS = {"nvidia": 9481, "amd": 9482, "rdma": 9483}
"""Default ports, one per vendor so that the three processes share a host network."""


class SettingsError(WrongUseError):
    """A flag or variable has a value that cannot be used."""


def _timing(default: float, text: str) -> float:
    # dataclasses.field returns the default's type to the type checker.
    return field(default=default, metadata={"text": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Bounds in seconds, set with ``--timing name=seconds``; tests lower them."""

    register_deadline: float = _timing(
        12.0, "one Register call; above 10, so that the kubelet's own dial error comes through"
    )
    backoff_first: float = _timing(1.0, "first pause after a refused registration")
    backoff_limit: float = _timing(30.0, "longest pause between registrations; it doubles up to it")
    stream_pause: float = _timing(
        1.0, "pause after a lost stream: kubelets up to 1.36 mix up its end with a new registration"
    )
    stream_expected: float = _timing(
        2.0, "time for the kubelet to open its stream after a registration"
    )
    holders_poll: float = _timing(10.0, "between questions to PodResources, +-20 %")
    holders_poll_draining: float = _timing(1.0, "the same while units drain")
    holders_deadline: float = _timing(2.0, "one question to PodResources")
    audit_interval: float = _timing(300.0, "least time between two repairs by the audit")
    audit_settle: float = _timing(
        3.0, "a list counts in the audit when sent so long before the question"
    )
    withdrawn_hold: float = _timing(
        30.0, "a withdrawn unit stays listed Unhealthy so long before it leaves the list"
    )
    restart_hold: float = _timing(
        600.0, "a unit held before a kubelet restart counts as held so long, unless disproved"
    )
    recovery_hold: float = _timing(10.0, "a recoverable fault clears after being good so long")
    bus_wait: float = _timing(
        10.0, "first list waits so long for devices that the PCI bus shows and the driver does not"
    )
    rescan: float = _timing(5.0, "between looks at the hardware")
    driver_retry: float = _timing(4.0, "longest pause between tries to reach the driver")
    scan_hung: float = _timing(
        60.0, "a scan without an end counts as hung; the first one may wake GPUs one by one"
    )
    health_poll: float = _timing(1.0, "between health polls")
    stop: float = _timing(2.0, "for an orderly end; then what is left is abandoned")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What ``deviceplugin run VENDOR`` was told."""

    vendor: str
    config: Path
    plugin_dir: Path
    pod_resources: Path
    state_dir: Path
    sysfs: Path
    devfs: Path
    procfs: Path
    driver_root: Path | None
    nvml_library: Path | None
    simulate: str
    simulate_control: Path | None
    take_over: bool
    metrics_address: str
    log_format: str
    log_level: str
    timings: Timings


def add_run_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of ``run``; defaults are filled in by ``run_settings``."""
    where = parser.add_argument_group("where things are")
    for flag, metavar, text in _PATH_FLAGS:
        where.add_argument(flag, metavar=metavar, help=text)
    how = parser.add_argument_group("how to run")
    how.add_argument(
        "--simulate",
        metavar="MACHINE",
        help="serve a simulated machine (a shipped name or a YAML file) instead of hardware;"
        " containers get /dev/null in place of each device node",
    )
    how.add_argument(
        "--simulate-control",
        metavar="FILE",
        help="with --simulate: steps of a timeline appended to it, as {xid: 79, gpu: 3}, happen at"
        " once",
    )
    how.add_argument(
        "--take-over",
        action="store_true",
        default=None,
        help="end another process of ours that serves this vendor here, instead of waiting for it",
    )
    how.add_argument(
        "--metrics-address",
        metavar="HOST:PORT",
        help="address of /metrics, /healthz and /readyz; empty: off (127.0.0.1 and port 9481 for"
        " nvidia, 9482 for amd, 9483 for rdma)",
    )
    add_log_flags(how)
    names = ", ".join(f"{_flag(f.name)} {f.default:g}" for f in fields(Timings))
    how.add_argument(
        "--timing",
        metavar="NAME=SECONDS",
        action="append",
        help=f"change a time limit; may be repeated (defaults: {names})",
    )


def add_log_flags(group: "argparse._ArgumentGroup") -> None:
    """Declare --log-format and --log-level."""
    group.add_argument(
        "--log-format", choices=("text", "json"), help="lines for people or for machines (text)"
    )
    group.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="least level shown (info)",
    )


_PATH_FLAGS = (
    ("--config", "FILE", "sharing config (/etc/deviceplugin/VENDOR.yaml)"),
    ("--plugin-dir", "DIR", "the kubelet's plugin folder (/var/lib/kubelet/device-plugins)"),
    ("--pod-resources", "SOCKET", "(PLUGIN_DIR/../pod-resources/kubelet.sock)"),
    ("--state-dir", "DIR", "what survives a restart, one file per vendor (/var/lib/deviceplugin)"),
    ("--sysfs", "DIR", "(/sys)"),
    ("--devfs", "DIR", "(/dev)"),
    ("--procfs", "DIR", "(/proc)"),
    ("--driver-root", "DIR", "NVIDIA: look for libnvidia-ml.so.1 below it first (/driver-root)"),
    ("--nvml-library", "FILE", "NVIDIA: load exactly this library"),
)


def run_settings(
    arguments: argparse.Namespace, environment: Mapping[str, str], vendor: str
) -> RunSettings:
    """Flags over environment over defaults.

    Raises:
        SettingsError: a value cannot be used; names the flag or the variable.

    """
    look = _Lookup(vars(arguments), environment)
    plugin_dir = look.path("plugin-dir", "/var/lib/kubelet/device-plugins")
    default_address = f"127.0.0.1:{METRICS_PORTS.get(vendor, 9484)}"
    return RunSettings(
        vendor=vendor,
        config=look.path("config", f"/etc/deviceplugin/{vendor}.yaml"),
        plugin_dir=plugin_dir,
        pod_resources=look.path(
            "pod-resources", str(plugin_dir.parent / "pod-resources" / "kubelet.sock")
        ),
        state_dir=look.path("state-dir", "/var/lib/deviceplugin"),
        sysfs=look.path("sysfs", "/sys"),
        devfs=look.path("devfs", "/dev"),
        procfs=look.path("procfs", "/proc"),
        driver_root=look.optional_path("driver-root"),
        nvml_library=look.optional_path("nvml-library"),
        simulate=look.text("simulate", ""),
        simulate_control=look.optional_path("simulate-control"),
        take_over=look.truth("take-over"),
        metrics_address=look.text("metrics-address", default_address),
        log_format=look.choice("log-format", "text", ("text", "json")),
        log_level=look.choice("log-level", "info", ("debug", "info", "warning", "error")),
        timings=timings(look.many("timing")),
    )


def unread(environment: Mapping[str, str]) -> tuple[str, ...]:
    """``DEVICEPLUGIN_…`` variables that no flag reads: a misspelt one has no effect.

    Kubernetes itself adds variables for a service called ``deviceplugin``; those are no mistake.
    """
    parser = argparse.ArgumentParser()
    add_run_flags(parser)
    read = {_variable(action.dest.replace("_", "-")) for action in parser._actions}  # noqa: SLF001 - argparse has no list of its flags
    ours = {name for name in environment if name.startswith(PREFIX)}
    return tuple(sorted(name for name in ours - read if not _of_a_service(name)))


def _of_a_service(name: str) -> bool:
    return name.startswith((f"{PREFIX}SERVICE_", f"{PREFIX}PORT")) or "_SERVICE_" in name


def timings(pairs: Sequence[str]) -> Timings:
    """Defaults with ``name=seconds`` pairs applied.

    Raises:
        SettingsError: an unknown name, or seconds that are not a number above 0.

    """
    known = {_flag(f.name): f.name for f in fields(Timings)}
    changes: dict[str, float] = {}
    for pair in pairs:
        name, _, seconds = pair.partition("=")
        if name not in known:
            msg = f"--timing {pair}: no such time limit; write one of {', '.join(known)}"
            raise SettingsError(msg)
        changes[known[name]] = _seconds(pair, seconds)
    return replace(Timings(), **changes)


def _seconds(pair: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        msg = f"--timing {pair}: write seconds as a number above 0, as in stream-pause=1"
        raise SettingsError(msg)
    return value


def _flag(field_name: str) -> str:
    return field_name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class _Lookup:
    """One setting after the other: the flag when given, else the variable, else the default."""

    flags: Mapping[str, object]
    environment: Mapping[str, str]

    def text(self, name: str, default: str) -> str:
        given = self.flags.get(name.replace("-", "_"))
        return str(given) if given is not None else self.environment.get(_variable(name), default)

    def path(self, name: str, default: str) -> Path:
        return Path(self.text(name, "") or default)

    def optional_path(self, name: str) -> Path | None:
        text = self.text(name, "")
        return Path(text) if text else None

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        text = self.text(name, default)
        if text not in allowed:
            msg = f"{_variable(name)}: found {text!r}; write one of {', '.join(allowed)}"
            raise SettingsError(msg)
        return text

    def truth(self, name: str) -> bool:
        text = self.text(name, "false").lower()
        if text not in {"true", "false", "1", "0", ""}:
            raise SettingsError(f"{_variable(name)}: found {text!r}; write true or false")
        return text in {"true", "1"}

    def many(self, name: str) -> Sequence[str]:
        given = self.flags.get(name)
        from_environment = self.environment.get(_variable(name), "").split(",")
        pairs = [text for text in from_environment if text]
        return pairs + (given if isinstance(given, list) else [])


def _variable(name: str) -> str:
    return PREFIX + name.upper().replace("-", "_")
