"""Which CDI names mean a GPU."""

import json
from pathlib import Path

import pytest

from deviceplugin.cdi import CdiSpecs
from deviceplugin.vendors.amd.cdi_names import cdi_names

RENDER = "/dev/dri/renderD128"


def spec(*devices: tuple[str, list[str]], kind: str = "amd.com/gpu") -> str:
    """A spec as AMD's toolkit writes it: /dev/kfd for all, nodes by device."""
    return json.dumps(
        {
            "cdiVersion": "0.6.0",
            "kind": kind,
            "containerEdits": {"deviceNodes": [{"path": "/dev/kfd"}]},
            "devices": [
                {
                    "name": name,
                    "containerEdits": {
                        "deviceNodes": [{"path": f"/x/{node}", "hostPath": node} for node in nodes]
                    },
                }
                for name, nodes in devices
            ],
        }
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(spec(("0", [RENDER])), ("amd.com/gpu=0",), id="its-node"),
        pytest.param(
            spec(("5", [RENDER]), ("0", ["/dev/dri/renderD129"])),
            ("amd.com/gpu=5",),
            id="numbered-otherwise",
        ),
        pytest.param(spec(("0", ["/dev/dri/renderD1280"])), (), id="longer-number"),
        pytest.param(spec(("all", [RENDER, "/dev/dri/renderD129"])), (), id="others-too"),
        pytest.param(spec(("0", [])), (), id="no-nodes"),
        pytest.param(spec(("0", [RENDER]), kind="other.com/gpu"), (), id="other-kind"),
        pytest.param(
            spec(("10", [RENDER]), ("2", [RENDER])),
            ("amd.com/gpu=2", "amd.com/gpu=10"),
            id="two-names",
        ),
    ],
)
def test_names(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    """A name means the GPU whose render node it holds, if it holds no other's."""
    (tmp_path / "amd.json").write_text(text)
    assert cdi_names(RENDER, CdiSpecs([tmp_path]).named()) == names


@pytest.mark.parametrize(
    "edits", [None, [], {"deviceNodes": 3}, {"deviceNodes": [3, {"path": 3}, {}]}]
)
def test_malformed_edits(tmp_path: Path, edits: object) -> None:
    """Edits that are not as they should be name no node; the name itself still resolves."""
    device = {"name": "0", "containerEdits": edits}
    text = json.dumps({"cdiVersion": "0.6.0", "kind": "amd.com/gpu", "devices": [device]})
    (tmp_path / "amd.json").write_text(text)
    assert CdiSpecs([tmp_path]).named() == {"amd.com/gpu=0": frozenset()}
