"""The grammar of unit ids, and slots as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.model import DeviceId, UnitId
from deviceplugin.sharing import ranges
from deviceplugin.sharing.ids import WHOLE, share_id, share_ids, slot_of, split, unit_id


@pytest.mark.parametrize(
    ("unit", "device", "n"),
    [
        pytest.param("GPU-0", "GPU-0", None, id="whole"),
        pytest.param("GPU-0::0", "GPU-0", 0, id="first-share"),
        pytest.param("GPU-0::65535", "GPU-0", 65535, id="last-share"),
        pytest.param("0000:3b:00.0::7", "0000:3b:00.0", 7, id="pci-address"),
        pytest.param("0000:3b:00.0", "0000:3b:00.0", None, id="whole-pci-address"),
        pytest.param("GPU-0::01", "GPU-0::01", None, id="second-spelling"),
        pytest.param("GPU-0::", "GPU-0::", None, id="no-number"),
        pytest.param("::3", "::3", None, id="no-device"),
        pytest.param("GPU-0::x", "GPU-0::x", None, id="not-a-number"),
        pytest.param("GPU-0::²", "GPU-0::²", None, id="digit-of-another-script"),
        pytest.param("GPU-0::" + "9" * 5000, "GPU-0::" + "9" * 5000, None, id="number-too-long"),
        pytest.param("a::1::2", "a::1", 2, id="last-mark-counts"),
    ],
)
def test_split(unit: str, device: str, n: int | None) -> None:
    """A unit id names its device and share; other ids stand for themselves."""
    assert split(UnitId(unit)) == (device, n)


@given(n=st.integers(0, 65535))
def test_split_undoes_share_id(n: int) -> None:
    """Ids that we make are read back as what they are."""
    device = DeviceId("GPU-5f9c::1")
    assert split(share_id(device, n)) == (device, n)
    assert slot_of(unit_id(device, WHOLE)) == (DeviceId("GPU-5f9c"), 1)
    assert share_ids(device, 2)[1] == share_id(device, 1)


@pytest.mark.parametrize(
    ("slots", "text"),
    [
        pytest.param([], "", id="none"),
        pytest.param([WHOLE], "whole", id="whole"),
        pytest.param([WHOLE, 0, 1], "whole,0-1", id="whole-is-no-share"),
        pytest.param([3, 1, 2, 7], "1-3,7", id="runs"),
    ],
)
def test_ranges(slots: list[int], text: str) -> None:
    """Slots are kept as short text and come back sorted."""
    assert ranges.to_text(slots) == text
    assert ranges.from_text(text) == tuple(sorted(slots))


@given(slots=st.sets(st.integers(WHOLE, 300)))
def test_ranges_lose_nothing(slots: set[int]) -> None:
    """Every set of slots survives the text."""
    assert set(ranges.from_text(ranges.to_text(slots))) == slots


@pytest.mark.parametrize("text", ["x", "1-", "3-1", "-1", "0-99999999999", "1-2-3", "half"])
def test_damaged_ranges_are_refused(text: str) -> None:
    """A damaged text is an error, never a billion units."""
    with pytest.raises(ValueError, match=r".+"):
        ranges.from_text(text)
