"""What is in force when the daemon starts: the file's config, the last good one, or nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from deviceplugin.simulation.kubelet import SimulatedKubelet

BAD = "version: v1\nsharing:\n  timeSlicing:\n    replicas: 0\n"

Serves = Callable[..., bool]
Sharing = Callable[..., str]


def test_a_bad_config_leaves_the_last_good_one(
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
) -> None:
    """Started with a bad file it serves what was good before the restart, and says so."""
    config.swap(sharing(replicas=4))
    daemon = start()
    assert serves(kubelet, 32)
    daemon.kill()
    config.swap(BAD)
    daemon = start()
    assert serves(kubelet, 32)
    assert daemon.said("config refused", "nvidia.yaml:4")
    assert daemon.said("config in force", "last good config")
    assert daemon.metric("config_last_reload_success") == 0
    assert daemon.get("readyz")[0] == 200
    config.swap(sharing(replicas=2))
    assert serves(kubelet, 16)


def test_a_bad_config_and_no_good_one(
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
) -> None:
    """Nothing is served, never the defaults; /readyz says why; the mended file is served."""
    config.swap(BAD)
    daemon = start()
    assert daemon.says("devices found")
    assert daemon.says("the first list waits", "a valid config")
    status, why = daemon.get("readyz")
    assert status == 503
    assert "nvidia.yaml:4" in why
    assert daemon.get("healthz")[0] == 200
    assert not kubelet.allocatable()
    config.swap(sharing(replicas=2))
    assert serves(kubelet, 16)
    assert {len(each.healthy) for each in kubelet.history} == {16}
    assert kubelet.wait(lambda: daemon.get("readyz") == (200, "ready\n"))


@pytest.mark.parametrize("good_before", [True, False], ids=["good-before", "first-start"])
def test_no_file(
    good_before: bool,  # noqa: FBT001 - a parameter of the test
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
) -> None:
    """Without a file the last good config counts, with a warning; on a first start the defaults."""
    if good_before:
        config.write(sharing(replicas=2))
        daemon = start()
        assert serves(kubelet, 16)
        daemon.kill()
        config.path.unlink()
        lists = len(kubelet.history)
        daemon = start()
        assert kubelet.wait(lambda: len(kubelet.history) > lists)
        assert daemon.said("WARNING", "config file is missing")
    else:
        start()
    assert serves(kubelet, 16 if good_before else 8)


def test_an_empty_file_is_no_missing_file(
    kubelet: SimulatedKubelet,
    start: Callable[..., Any],
    serves: Serves,
    config: Any,
    sharing: Sharing,
) -> None:
    """An empty file is a valid config: the last good one is not taken instead."""
    config.write(sharing(replicas=2))
    daemon = start()
    assert serves(kubelet, 16)
    daemon.kill()
    config.write("")
    start()
    assert serves(kubelet, 8)
