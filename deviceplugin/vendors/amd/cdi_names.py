"""Which CDI names mean a GPU or a partition: told by its render node, not by numbers."""

import re

from deviceplugin.cdi import Named

KIND = "amd.com/gpu"
"""The kind that AMD's container toolkit writes."""

_RENDER = re.compile(r"/dev/dri/renderD[0-9]+", re.ASCII)


def cdi_names(render: str, specs: Named) -> tuple[str, ...]:
    """Names that stand for the device with the node ``render``, and for no other; sorted.

    The numbers behind ``amd.com/gpu=`` count as the tool counted when it wrote the spec, and
    need not be ours. A name with several render nodes, as ``all``, would give away others' GPUs.
    """
    return tuple(
        sorted(
            (name for name, nodes in specs.items() if _stands_for(name, nodes, render)),
            # 2 before 10, as people count.
            key=lambda name: (len(name), name),
        )
    )


def _stands_for(name: str, nodes: frozenset[str], render: str) -> bool:
    renders = {node for node in nodes if _RENDER.fullmatch(node)}
    return name.startswith(f"{KIND}=") and renders == {render}
