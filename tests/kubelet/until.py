"""Waiting for what a plugin sees."""

import time
from collections.abc import Callable


def until(condition: Callable[[], object], *, seconds: float = 10.0) -> bool:
    """Poll until the condition holds; False when it still does not after so long."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
