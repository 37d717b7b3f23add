"""The kubelet's memory over its own restarts: who holds what, and which resources it knew.

The file has the real one's name and place, so that plugins meet a plain file there
that must stay; its form is our own.
"""

import base64
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deviceplugin.api.v1beta1 import api_pb2
from deviceplugin.simulation.kubelet.holdings import Holding

NAME = "kubelet_internal_checkpoint"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a kubelet finds of the one before."""

    resources: frozenset[str] = frozenset()
    holdings: tuple[Holding, ...] = ()


def write(folder: Path, resources: Iterable[str], holdings: Iterable[Holding]) -> None:
    """Replace the checkpoint; readers see the old one or the new one, never half."""
    text = json.dumps(
        {"resources": sorted(resources), "holdings": [_to_json(each) for each in holdings]}
    )
    fresh = folder / f".{NAME}.new"
    fresh.write_text(text)
    fresh.rename(folder / NAME)


def read(folder: Path) -> Checkpoint:
    """Read the checkpoint; one that is absent or broken counts as empty."""
    try:
        data = json.loads((folder / NAME).read_text())
        return Checkpoint(
            resources=frozenset(data["resources"]),
            holdings=tuple(_from_json(each) for each in data["holdings"]),
        )
    except FileNotFoundError:
        return Checkpoint()
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("checkpoint is unreadable, starting empty", extra={"error": str(error)})
        return Checkpoint()


def _to_json(holding: Holding) -> dict[str, Any]:
    return {
        "uid": holding.uid,
        "container": holding.container,
        "resource": holding.resource,
        "nodes": {id_: list(nodes) for id_, nodes in holding.nodes.items()},
        "answer": base64.b64encode(holding.answer.SerializeToString()).decode(),
    }


def _from_json(data: dict[str, Any]) -> Holding:
    return Holding(
        uid=data["uid"],
        container=data["container"],
        resource=data["resource"],
        nodes={id_: tuple(nodes) for id_, nodes in data["nodes"].items()},
        answer=api_pb2.ContainerAllocateResponse.FromString(base64.b64decode(data["answer"])),
    )
