"""Kubelets with a topology policy."""

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


def settings(kind: str, policy: str) -> dict[str, object]:
    """Return what to start one with, on the two NUMA nodes of the simulated H100 machine.

    The simulated kubelet takes the nodes from the devices.
    """
    if kind.startswith("simulated-"):
        return {"policy": policy}
    return {"policy": policy, "numa": [0, 1]}
