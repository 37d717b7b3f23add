"""Resets that KFD tells of, from the driver to the fault and back."""

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deviceplugin.events import HardwareChanged, Symptom, WasReset
from deviceplugin.vendors.amd.event_source import EventSource
from deviceplugin.vendors.amd.generation import GenerationSource
from deviceplugin.vendors.amd.kfd_events import RealDoor

FIRST = "0000:05:00.0"


def test_a_reset_from_begin_to_end(amd: Any, until: Callable[..., bool]) -> None:
    """Between the two events the GPU is ill and nobody calls it good; then it was reset, once."""
    amd.start(EventSource(door=amd.door, health=amd.health), kfd_events=True)
    assert until(lambda: amd.door._listeners)
    amd.happen("{reset: 0}")
    assert amd.sees(Symptom, device=FIRST, kind="resetting")
    assert amd.health.is_condemned(FIRST)
    assert amd.sees(WasReset, device=FIRST)
    assert until(lambda: not amd.health.is_condemned(FIRST))
    assert sum(isinstance(event, WasReset) for event in amd.events) == 1
    assert {event.device for event in amd.events} == {FIRST}


def test_off_unless_wanted(amd: Any, until: Callable[..., bool]) -> None:
    """Nobody opens /dev/kfd by default; the config switches it on and off without a restart."""
    amd.start(EventSource(door=amd.door, health=amd.health))
    assert not until(lambda: amd.door._listeners, 0.2)
    amd.health.configure(replace(amd.health.flags, kfd_events=True))
    assert until(lambda: amd.door._listeners)
    amd.health.configure(replace(amd.health.flags, kfd_events=False))
    assert until(lambda: not amd.door._listeners)


def test_without_leave(
    amd: Any, tmp_path: Path, until: Callable[..., bool], caplog: pytest.LogCaptureFixture
) -> None:
    """A pod that may not open /dev/kfd says so once, with the remedy, and goes on without."""
    with caplog.at_level(logging.WARNING):
        amd.start(
            EventSource(door=RealDoor(devfs=tmp_path / "none"), health=amd.health), kfd_events=True
        )
        assert until(lambda: caplog.records)
        assert not until(lambda: len(caplog.records) > 1, 0.5)
    assert "kfdEvents" in caplog.records[0].message
    assert not amd.events


def test_a_driver_that_goes_away(amd: Any, until: Callable[..., bool]) -> None:
    """Its event files break; when it is back the events are listened for again."""
    amd.start(EventSource(door=amd.door, health=amd.health), kfd_events=True)
    assert until(lambda: amd.door._listeners)
    amd.happen("{driver: gone}")
    amd.health.away("not loaded")
    assert until(lambda: not amd.door._listeners)
    amd.happen("{driver: back}")
    assert until((amd.options.devfs / "kfd").exists)
    amd.scan()
    assert until(lambda: amd.door._listeners)


def test_a_repartition_is_seen(amd: Any) -> None:
    """KFD's generation rises, and a scan is asked for within the poll's time."""
    amd.start(GenerationSource(root=amd.options.sysfs, seconds=0.02))
    amd.happen("{repartition: SPX/NPS1}")
    assert amd.sees(HardwareChanged)
