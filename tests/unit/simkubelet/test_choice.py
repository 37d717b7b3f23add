"""The order in which the simulated kubelet chooses devices."""

import random

from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.simulation.kubelet.choice import Choice

IDS = [f"d{n}" for n in range(8)]


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    """Any choice that can be made: enough devices, any wish."""
    reusable = draw(st.sets(st.sampled_from(IDS[:3])))
    available = draw(st.sets(st.sampled_from(IDS[3:]), min_size=1))
    aligned = draw(st.none() | st.sets(st.sampled_from(sorted(available))))
    size = draw(st.integers(1, len(reusable | available)))
    wish = draw(st.lists(st.sampled_from([*IDS, "unknown"])))
    ask = draw(st.sampled_from([None, lambda *_: wish]))
    return Choice(
        size=size,
        reusable=reusable,
        available=available,
        aligned=aligned,
        ask=ask,
        chance=random.Random(draw(st.integers(0, 9))),  # noqa: S311 - repeatable
    )


@given(choices())
def test_whatever_the_wish_the_size_is_right(choice: Choice) -> None:
    """Exactly the size asked is taken, from what is lent or free, lent ones first."""
    taken = choice.make()
    assert len(taken) == choice.size
    assert taken <= choice.reusable | choice.available
    assert len(taken & choice.reusable) == min(choice.size, len(choice.reusable))


@given(choices())
def test_alignment_goes_before_the_wish(choice: Choice) -> None:
    """As many aligned devices are taken as are needed and there are."""
    taken = choice.make()
    needed = choice.size - len(taken & choice.reusable)
    if choice.aligned is not None:
        assert len(taken & choice.aligned) >= min(needed, len(choice.aligned))


def test_chance_is_repeatable() -> None:
    """The same seed chooses the same devices; another seed may not."""

    def take(seed: int) -> frozenset[str]:
        chance = random.Random(seed)  # noqa: S311 - repeatable
        choice = Choice(
            size=3, reusable=set(), available=set(IDS), aligned=None, ask=None, chance=chance
        )
        return frozenset(choice.make())

    assert take(1) == take(1)
    assert len({take(seed) for seed in range(9)}) > 1
