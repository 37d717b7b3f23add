"""Which tests begin first, so that five minutes of waiting pass beside the others."""

import pytest


def first_of_each_worker(items: list[pytest.Item], workers: int) -> None:
    """Put the tests marked ``grace`` where the share of each worker begins.

    The schedule ``worksteal`` gives each worker an equal run of neighbours. The first test of a
    run is never stolen: all of them begin at once.
    """
    waiting = [item for item in items if item.get_closest_marker("grace")]
    others = [item for item in items if not item.get_closest_marker("grace")]
    items[:] = others
    for start, item in zip(_starts(len(others) + len(waiting), workers), waiting, strict=False):
        items.insert(start, item)
    # More than there are workers: right after those that began.
    items[1:1] = waiting[workers:]


def _starts(tests: int, workers: int) -> list[int]:
    starts = [0]
    for left in range(workers, 1, -1):
        starts.append(starts[-1] + (tests - starts[-1]) // left)
    return starts
