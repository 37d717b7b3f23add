"""What a dialect says of its vendor."""

from collections.abc import Callable
from dataclasses import fields

import pytest

from deviceplugin.config import dialects
from deviceplugin.config.amd_options import AmdFlags
from deviceplugin.config.fields import every
from deviceplugin.config.nvidia_options import NvidiaFlags
from deviceplugin.config.rules import Config, HealthPolicy, Problem
from deviceplugin.model import AllocationRules

FLAGS = {"nvidia": NvidiaFlags, "amd": AmdFlags}
WITHOUT = {"nvidia": set(), "amd": {"health.disabled", "health.enabled"}}
"""Settings that nothing of a vendor's users sets."""


@pytest.mark.parametrize("vendor", FLAGS)
def test_every_setting_has_a_key(vendor: str) -> None:
    """Each field that a message may name has the key or variable that users write."""
    parts = {"allocation": AllocationRules, "health": HealthPolicy, "flags": FLAGS[vendor]}
    names = {f"{part}.{field.name}" for part, kind in parts.items() for field in fields(kind)}
    assert set(dialects.of(vendor).written) == names - WITHOUT[vendor]


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "acme"])
def test_keys_exist(vendor: str) -> None:
    """Keys that messages name are keys of the file, but for variables without one."""
    dialect = dialects.of(vendor)
    keys = {".".join(map(str, loc)) for loc, _ in every(dialect.schema)}
    named = {key for key in dialect.written.values() if not key.startswith("DP_")}
    assert named <= keys


SHARED = (
    "sharing: {{timeSlicing: {{resources: [{{name: {name}, replicas: 2, rename: {rename}}}]}}}}"
)


@pytest.mark.parametrize("name", ["toy.example.com/card", "rdma/hca", "toy.com/card"])
def test_a_vendor_has_the_domain_it_wants(loaded: Callable[..., Config], name: str) -> None:
    """Without a dialect any domain is accepted, for it is the vendor's module that knows."""
    text = SHARED.format(name=name, rename=f"{name}.shared")
    (rule,) = loaded(text, vendor="toy").rules
    assert (rule.resource, rule.rename) == (name, f"{name}.shared")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("card", "write the whole name, with its domain: example.com/card"),
        ("Card", "write the whole name, with its domain: example.com/card"),
        ("Toy.com/card", "capitals are not allowed: write toy.com/card"),
        ("toy.com/Card", "capitals are not allowed: write toy.com/card"),
        ("/card", "write a domain such as example.com before the '/'"),
        ("toy_/card", "write a domain such as example.com before the '/'"),
        ("toy.com/a/b", "write toy.com/ and then lower-case letters"),
        ("toy.com/" + "a" * 56, "shorten it: 64 characters"),
        ("kubernetes.io/card", "the kubelet keeps this domain to itself"),
        ("requests.toy.com/card", "the kubelet keeps this domain to itself"),
    ],
    ids=lambda value: value[:24],
)
def test_names_that_no_vendor_serves(
    refused: Callable[..., tuple[Problem, ...]], name: str, remedy: str
) -> None:
    """Without a dialect a name needs a domain, and the kubelet has to take it."""
    for text, key in (
        (SHARED.format(name=name, rename="toy.com/x"), "name"),
        (SHARED.format(name="toy.com/x", rename=name), "rename"),
    ):
        (problem,) = refused(text, vendor="toy")
        assert problem.path == f"sharing.timeSlicing.resources[0].{key}"
        assert problem.remedy.startswith(remedy)
