"""Names, types, labels and values of the metrics."""

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from deviceplugin.model import BackendState
from deviceplugin.observe.families import families
from deviceplugin.observe.metrics import render
from deviceplugin.observe.samples import Clock
from deviceplugin.observe.status import Status

GOLDEN = Path(__file__).parents[2] / "golden" / "metrics.txt"
CLOCK = Clock(monotonic=10.0, unix=1_000_010.0)


def _line(family: Metric) -> str:
    labels = sorted({label for sample in family.samples for label in sample.labels})
    total = "_total" if family.type == "counter" else ""
    return f"{family.name}{total} {family.type} {' '.join(labels)}".rstrip()


def _value(status: Status, name: str, **labels: str) -> float:
    """Give the one sample of that name and labels."""
    found = [
        sample.value
        for family in families(status, CLOCK)
        for sample in family.samples
        if sample.name == f"device_plugin_{name}" and sample.labels == labels
    ]
    assert len(found) == 1
    return found[0]


def test_names_types_and_labels_stay_as_they_are(lived_in: Status) -> None:
    """Dashboards hold on to them: a change here is a change to announce."""
    lines = [_line(family) for family in families(lived_in, CLOCK)]
    assert "\n".join(lines) + "\n" == GOLDEN.read_text()


def test_the_golden_file_has_no_family_without_labels_by_accident(lived_in: Status) -> None:
    """Each family has a sample in the status that the golden file is made from."""
    assert [family.name for family in families(lived_in, CLOCK) if not family.samples] == []


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        pytest.param("devices", {"resource": "nvidia.com/gpu", "state": "healthy"}, 1, id="good"),
        pytest.param("devices", {"resource": "nvidia.com/gpu", "state": "missing"}, 1, id="gone"),
        pytest.param(
            "devices", {"resource": "nvidia.com/gpu", "state": "holders-unknown"}, 0, id="kept"
        ),
        pytest.param("device_health", {"device": "GPU-0", "reason": ""}, 1, id="healthy-device"),
        pytest.param("device_health", {"device": "GPU-1", "reason": "xid-79"}, 0, id="bad-device"),
        pytest.param(
            "allocations_total", {"resource": "nvidia.com/gpu", "result": "ok"}, 1, id="answered"
        ),
        pytest.param(
            "allocate_duration_seconds_bucket",
            {"resource": "nvidia.com/gpu", "le": "0.0005"},
            1,
            id="allocate-bucket",
        ),
        pytest.param(
            "preferred_allocation_duration_seconds_bucket",
            {"resource": "nvidia.com/gpu", "le": "0.001"},
            0,
            id="preferred-below",
        ),
        pytest.param(
            "preferred_allocation_duration_seconds_bucket",
            {"resource": "nvidia.com/gpu", "le": "+Inf"},
            1,
            id="preferred-all",
        ),
        pytest.param(
            "registrations_total",
            {"resource": "nvidia.com/gpu", "result": "ok"},
            1,
            id="registered",
        ),
        pytest.param("listandwatch_streams", {"resource": "nvidia.com/gpu"}, 1, id="streams"),
        pytest.param("listandwatch_payload_bytes", {"resource": "nvidia.com/gpu"}, 118, id="size"),
        pytest.param(
            "listandwatch_last_send_timestamp_seconds",
            {"resource": "nvidia.com/gpu"},
            1_000_003.0,
            id="monotonic-times-become-unix-times",
        ),
        pytest.param("config_last_reload_success", {}, 0, id="refused-edit"),
        pytest.param("config_last_reload_timestamp_seconds", {}, 1_000_002.0, id="accepted-at"),
        pytest.param(
            "config_info", {"source": "nvidia.yaml", "digest": "4f1d"}, 1, id="config-in-force"
        ),
        pytest.param("config_unmet_entries", {}, 1, id="unmet"),
        pytest.param("backend_state", {"state": "ready"}, 1, id="backend-state"),
        pytest.param("backend_state", {"state": "driver-hung"}, 0, id="other-backend-state"),
        pytest.param("symptoms_total", {"device": "GPU-1", "kind": "xid-79"}, 1, id="xid"),
        pytest.param("source_failures_total", {"source": "nvidia-events"}, 1, id="source"),
        pytest.param("simulated", {}, 0, id="on-hardware"),
        pytest.param("ready", {}, 1, id="ready"),
    ],
)
def test_values(lived_in: Status, name: str, labels: dict[str, str], value: float) -> None:
    """Each family tells what the status says."""
    assert _value(lived_in, name, **labels) == value


def test_a_simulated_machine_shows() -> None:
    """Nobody takes a simulated node for a real one."""
    assert _value(Status(vendor="nvidia", simulated="h100x8"), "simulated") == 1


def test_every_backend_state_is_a_series() -> None:
    """Alerts can name any state without having seen it."""
    text = render(Status(vendor="nvidia")).decode()
    assert all(f'backend_state{{state="{state.value}"}}' in text for state in BackendState)


def test_a_fresh_daemon_has_metrics(lived_in: Status) -> None:
    """The text is well-formed before the first event, and the same families are announced."""
    fresh = {f.name for f in text_string_to_metric_families(render(Status(vendor="x")).decode())}
    full = {f.name for f in text_string_to_metric_families(render(lived_in).decode())}
    assert full - fresh == {"device_plugin_lock_held"}
    assert {"process_resident_memory_bytes", "process_open_fds"} <= fresh


def test_the_server_does_not_load_the_metrics_library() -> None:
    """Importing the server and making a probe's answer leaves the library alone.

    It costs 10 MB and a tenth of a second; a start that a kubelet waits for pays neither.
    """
    code = (
        "import sys, deviceplugin.observe.http as http, deviceplugin.observe.status as status\n"
        "from deviceplugin.published import Published\n"
        "server = http.HttpServer('127.0.0.1:0', Published(status.Status(vendor='x')), str)\n"
        "server.start(); server.stop()\n"
        "heavy = {'prometheus_client', 'grpc', 'http.server', 'http.client', 'yaml', 'pydantic'}\n"
        "print(*(heavy & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")
