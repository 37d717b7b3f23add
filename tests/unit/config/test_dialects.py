"""What a dialect says of its vendor."""

from dataclasses import fields

import pytest

from deviceplugin.config import dialects
from deviceplugin.config.fields import every
from deviceplugin.config.nvidia_options import NvidiaFlags
from deviceplugin.config.rules import HealthPolicy
from deviceplugin.model import AllocationRules

PARTS = {"allocation": AllocationRules, "health": HealthPolicy, "flags": NvidiaFlags}


def test_every_setting_has_a_key() -> None:
    """Each field that a message may name has the key or variable that users write."""
    names = {f"{part}.{field.name}" for part, kind in PARTS.items() for field in fields(kind)}
    assert set(dialects.of("nvidia").written) == names


@pytest.mark.parametrize("vendor", ["nvidia", "acme"])
def test_keys_exist(vendor: str) -> None:
    """Keys that messages name are keys of the file, but for variables without one."""
    dialect = dialects.of(vendor)
    keys = {".".join(map(str, loc)) for loc, _ in every(dialect.schema)}
    named = {key for key in dialect.written.values() if not key.startswith("DP_")}
    assert named <= keys
