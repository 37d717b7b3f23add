"""From kubelet and metrics to what the view shows."""

import random

import pytest

from deviceplugin.simulation.demo_pods import End, Start, choose
from deviceplugin.simulation.facts import Scraped
from deviceplugin.simulation.machine import Machine
from deviceplugin.simulation.names import Names
from deviceplugin.simulation.scrape import parse
from deviceplugin.simulation.view import DeviceRow, Memory, devices

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"


@pytest.fixture
def uuids(machine: Machine) -> list[str]:
    """Ids of the two GPUs."""
    assert machine.nvidia is not None
    return [gpu.uuid for gpu in machine.nvidia.gpus]


def test_units_are_sorted_by_gpu_and_share(machine: Machine, uuids: list[str]) -> None:
    """Units stand by the machine's GPUs, shares by number, with use and health as letters."""
    first, second = uuids
    health = {
        GPU: {
            f"{second}::0": "Unhealthy",
            f"{first}::10": "Healthy",
            f"{first}::2": "Healthy",
            f"{first}::0": "Unhealthy",
        }
    }
    held = {GPU: frozenset({f"{first}::2", f"{second}::0"})}
    rows = devices(health, held, Names.of(machine), Scraped(reasons={second: "lost"}))
    assert list(rows) == [
        DeviceRow(name="GPU 0", units="xuf"),
        DeviceRow(name="GPU 1", units="x", reason="lost"),
    ]


def test_a_unit_under_two_names_is_healthy_in_one(machine: Machine, uuids: list[str]) -> None:
    """During a rename an id stands in two lists; the healthy one counts."""
    health = {GPU: {uuids[0]: "Unhealthy"}, SHARED: {uuids[0]: "Healthy"}}
    for each in (health, dict(reversed(health.items()))):
        rows = list(devices(each, {}, Names.of(machine), Scraped()))
        assert rows == [DeviceRow(name="GPU 0", units="f")]


@pytest.mark.parametrize("state", ["draining", "withdrawn", "holders unknown"])
def test_leaving_units_are_not_called_unhealthy(
    machine: Machine, uuids: list[str], state: str
) -> None:
    """A unit is leaving where units leave, unless its device has a fault: that comes first."""
    first, second = uuids
    health = {
        GPU: {first: "Unhealthy", f"{first}::1": "Healthy", second: "Unhealthy"},
        SHARED: {f"{first}::2": "Unhealthy"},
    }
    scraped = Scraped(
        reasons={second: "lost"}, states={GPU: {state: 1, "unhealthy": 1}, SHARED: {"unhealthy": 1}}
    )
    assert list(devices(health, {}, Names.of(machine), scraped)) == [
        DeviceRow(name="GPU 0", units="lfx"),
        DeviceRow(name="GPU 1", units="x", reason="lost"),
    ]


def test_foreign_units_come_last(machine: Machine, uuids: list[str]) -> None:
    """A device that the machine does not have is shown by its id, behind the others."""
    health = {GPU: {"A-1": "Healthy", uuids[1]: "Healthy"}}
    rows = devices(health, {}, Names.of(machine), Scraped())
    assert [row.name for row in rows] == ["GPU 1", "A-1"]


def test_metrics_become_reasons_and_states() -> None:
    """Reasons of unhealthy devices and units by state are picked out; the rest is left."""
    samples = [
        ("device_plugin_device_health", {"device": "a", "reason": "lost"}, 0.0),
        ("device_plugin_device_health", {"device": "b", "reason": ""}, 1.0),
        ("device_plugin_devices", {"resource": GPU, "state": "healthy"}, 7.0),
        ("device_plugin_devices", {"resource": GPU, "state": "draining"}, 0.0),
        ("device_plugin_build_info", {}, 1.0),
    ]
    assert parse(samples) == Scraped(reasons={"a": "lost"}, states={GPU: {"healthy": 7}})


def test_latencies_are_summed_up() -> None:
    """The middle of the admissions is shown, with their number."""
    memory = Memory(began=0.0)
    assert memory.latencies().admission is None
    for milliseconds in (1.0, 9.0, 2.0):
        memory.admission(milliseconds)
    assert memory.latencies().admission == 2.0
    assert memory.latencies().admissions == 3


def _chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - repeatable chance, no secret


@pytest.mark.parametrize(
    ("free", "alive", "expected"),
    [
        pytest.param({GPU: 8}, [], Start, id="an empty node gets a pod"),
        pytest.param({GPU: 0}, ["a"], End, id="a full node loses one"),
        pytest.param({GPU: 8}, ["a", "b", "c"], End, id="the most pods are there"),
        pytest.param({}, [], type(None), id="nothing to ask for"),
        pytest.param({GPU: -1}, [], type(None), id="more held than healthy"),
    ],
)
def test_what_demo_pods_do(free: dict[str, int], alive: list[str], expected: type) -> None:
    """Pods start where there is room and end where there is none, whatever chance says."""
    for seed in range(20):
        assert isinstance(choose(free, alive, 3, _chance(seed)), expected)


def test_pods_ask_for_what_is_there() -> None:
    """No pod asks for more units than are free."""
    counts = set()
    for seed in range(50):
        start = choose({GPU: 1, SHARED: 9}, [], 3, _chance(seed))
        assert isinstance(start, Start)
        counts.add((start.resource, start.count))
    assert counts == {(GPU, 1), (SHARED, 1), (SHARED, 2)}
