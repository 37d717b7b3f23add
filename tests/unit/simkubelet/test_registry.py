"""Which era the simulated kubelet can be of."""

import pytest

from deviceplugin.simulation.kubelet.registry import ByPath, ByResource, registry


@pytest.mark.parametrize(("era", "kind"), [("1.36", ByResource), ("1.37", ByPath)])
def test_eras(era: str, kind: type) -> None:
    """Each era has its rules."""
    assert isinstance(registry(era, "wipe"), kind)


def test_other_era() -> None:
    """Another era is refused with what to write instead."""
    with pytest.raises(ValueError, match=r'write "1.36" or "1.37"'):
        registry("1.12", "wipe")
