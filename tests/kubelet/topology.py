"""Kubelets with a topology policy."""

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


def settings(policy: str) -> dict[str, object]:
    """Return what to start one with, on the two NUMA nodes of the simulated H100 machine."""
    return {"policy": policy, "numa": [0, 1]}
