"""Device nodes of NVIDIA's driver, as paths in the container."""

from pathlib import Path

CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Nodes that every CUDA program needs or may use, whichever GPUs it was given."""

FOLDER = "/dev"


def gpu_node(minor: int) -> str:
    """The node of one GPU."""
    return f"{FOLDER}/nvidia{minor}"


def control_nodes(devfs: Path) -> tuple[str, ...]:
    """Control nodes that exist under ``devfs``."""
    return tuple(f"{FOLDER}/{name}" for name in CONTROL if (devfs / name).exists())


def visible(devfs: Path, node: str) -> bool:
    """Whether a node of ours exists under ``devfs``."""
    return (devfs / node.removeprefix(f"{FOLDER}/")).exists()
