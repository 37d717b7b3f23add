"""Which config is in force at the start."""

from dataclasses import dataclass, field

import pytest

from deviceplugin import events as ev
from deviceplugin.config.load import load
from deviceplugin.config.rules import Config, Problem
from deviceplugin.first_config import FileEvent, FirstConfig

SHARED = """\
version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""
WRONG = "version: v2\n"
MISSING = ev.ConfigMissing(source="nvidia.yaml", at=1)
REFUSED = ev.ConfigRefused(
    source="nvidia.yaml",
    problems=(Problem(file="nvidia.yaml", line=1, path="version", found="v2", remedy="write v1"),),
    at=1,
)


@dataclass
class Outcome:
    """What the events leave in force, and what they said on the way."""

    config: Config | None = None
    said: list[str] = field(default_factory=list)


def choose(found: FileEvent, last_good: str | None = None, **environment: str) -> Outcome:
    """Fold the events of a start."""
    first = FirstConfig(
        vendor="nvidia", environment=environment, last_good=last_good, last_source="old.yaml"
    )
    outcome = Outcome()
    for event in first.events(found):
        outcome.said.append(type(event).__name__)
        if isinstance(event, ev.ConfigAccepted):
            outcome.config = event.config
    return outcome


@pytest.mark.parametrize(
    ("found", "last_good", "source", "replicas", "said"),
    [
        pytest.param(
            MISSING,
            None,
            "defaults (there is no nvidia.yaml)",
            (),
            ["ConfigAccepted"],
            id="missing-first-start",
        ),
        pytest.param(
            MISSING,
            SHARED,
            "last good config (old.yaml)",
            (4,),
            ["ConfigAccepted", "ConfigMissing"],
            id="missing-last-good",
        ),
        pytest.param(
            REFUSED,
            SHARED,
            "last good config (old.yaml)",
            (4,),
            ["ConfigAccepted", "ConfigRefused"],
            id="wrong-last-good",
        ),
    ],
)
def test_the_last_good_config_wins_over_the_defaults(
    found: FileEvent, last_good: str | None, source: str, replicas: tuple[int, ...], said: list[str]
) -> None:
    """A file that is wrong or gone leaves the last good config; only a first start has defaults."""
    outcome = choose(found, last_good)
    assert outcome.config is not None
    assert outcome.config.source == source
    assert tuple(rule.replicas for rule in outcome.config.rules) == replicas
    assert outcome.said == said


def test_a_wrong_file_and_nothing_good_before_serves_nothing() -> None:
    """A wrong first config never means the defaults."""
    outcome = choose(REFUSED)
    assert outcome.config is None
    assert outcome.said == ["ConfigRefused"]


def test_a_last_good_config_that_a_newer_version_refuses_serves_nothing() -> None:
    """What is kept is judged anew, and its refusal is said."""
    outcome = choose(MISSING, WRONG)
    assert outcome.config is None
    assert outcome.said == ["ConfigRefused"]


def test_the_source_of_a_config_kept_twice_names_the_file_once() -> None:
    """A second restart on the last good config does not nest the words."""
    first = FirstConfig(
        vendor="nvidia",
        environment={},
        last_good=SHARED,
        last_source="last good config (old.yaml)",
    )
    accepted = [event for event in first.events(MISSING) if isinstance(event, ev.ConfigAccepted)]
    assert accepted[0].config.source == "last good config (old.yaml)"


def test_a_good_file_is_all_there_is_to_say() -> None:
    """With a valid file nothing else is looked at."""
    found = ev.ConfigAccepted(config=load("nvidia", SHARED, file="n.yaml"), text=SHARED, at=1)
    assert choose(found, WRONG).config == found.config


def test_the_environment_counts_where_there_is_no_file() -> None:
    """The incumbents' variables change the defaults, and a wrong one is refused by name."""
    assert choose(MISSING, None, DEVICE_ID_STRATEGY="index").config != choose(MISSING).config
    assert choose(MISSING, None, DEVICE_ID_STRATEGY="name").said == ["ConfigRefused"]
