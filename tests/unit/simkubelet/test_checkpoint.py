"""The simulated kubelet's checkpoint file."""

from pathlib import Path

import pytest

from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.simulation.kubelet import checkpoint
from deviceplugin.simulation.kubelet.holdings import Holding, Holdings


def _holding() -> Holding:
    return Holding(
        uid="u",
        container="main",
        resource="nvidia.com/gpu",
        nodes={"a": (0, 1), "b": ()},
        answer=api_pb2.ContainerAllocateResponse(envs={"A": "1"}),
    )


def test_round_trip(tmp_path: Path) -> None:
    """What is written is read again, answers included."""
    checkpoint.write(tmp_path, {"nvidia.com/gpu"}, Holdings([_holding()]))
    assert checkpoint.read(tmp_path) == checkpoint.Checkpoint(
        resources=frozenset({"nvidia.com/gpu"}), holdings=(_holding(),)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["kubelet_internal_checkpoint"]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"resources": 1}', '{"resources": []}'])
def test_broken_is_empty(tmp_path: Path, text: str) -> None:
    """A file that makes no sense counts as none."""
    (tmp_path / checkpoint.NAME).write_text(text)
    assert checkpoint.read(tmp_path) == checkpoint.Checkpoint()


def test_absent_is_empty(tmp_path: Path) -> None:
    """No file, no memory."""
    assert checkpoint.read(tmp_path) == checkpoint.Checkpoint()
