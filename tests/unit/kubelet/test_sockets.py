"""Names of our sockets."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.kubelet import sockets
from deviceplugin.model import ResourceName

FOLDER = Path("/var/lib/kubelet/device-plugins")
NAME = re.compile(r"[A-Za-z0-9_.-]+-[0-9a-f]{8}\.sock")


@pytest.mark.parametrize(
    ("resource", "head"),
    [
        pytest.param("nvidia.com/gpu", "nvidia-gpu-", id="plain"),
        pytest.param("nvidia.com/mig-1g.10gb", "nvidia-mig-1g.10gb-", id="partition"),
        pytest.param("nvidia.com/gpu.shared", "nvidia-gpu.shared-", id="shared"),
        pytest.param("example.com/" + "x" * 200, "nvidia-" + "x" * 54 + "-", id="shortened"),
    ],
)
def test_name_tells_vendor_and_resource(resource: str, head: str) -> None:
    """A person in the folder can tell whose socket it is."""
    path = sockets.fresh(FOLDER, "nvidia", ResourceName(resource))
    assert path.parent == FOLDER
    assert path.name.startswith(head)
    assert NAME.fullmatch(path.name)


def test_names_are_never_reused() -> None:
    """Each generation has a name of its own."""
    names = {sockets.fresh(FOLDER, "amd", ResourceName("amd.com/gpu")) for _ in range(1000)}
    assert len(names) == 1000


@given(st.integers(1, 83), st.text(max_size=80))
def test_path_fits(length: int, resource: str) -> None:
    """Whatever the resource is called, the path fits 107 bytes."""
    folder = Path("/" + "d" * length)
    path = sockets.fresh(folder, "nvidia", ResourceName(f"x.com/{resource}"))
    assert len(os.fsencode(path)) <= 107
    assert path.parent == folder
    assert NAME.fullmatch(path.name)


@given(st.integers(84, 200))
def test_folder_too_long(length: int) -> None:
    """A folder that leaves no room for a name is an error that says how much is too much."""
    with pytest.raises(sockets.SocketPathError, match=f"{length - 83} bytes too long"):
        sockets.fresh(Path("/" + "d" * length), "nvidia", ResourceName("x.com/gpu"))
