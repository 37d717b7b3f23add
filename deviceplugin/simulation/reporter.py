"""Where the story of a simulated node is told: lines, JSON, or a live view."""

from collections.abc import Callable
from typing import Protocol

from deviceplugin.simulation.facts import Happening
from deviceplugin.simulation.view import NodeView


class Reporter(Protocol):
    """Called by the node's loop alone."""

    def start(self) -> None:
        """Begin."""

    def tell(self, happening: Happening) -> None:
        """Tell one thing. May raise BrokenPipeError when nobody reads any more."""

    def draw(self, look: Callable[[], NodeView]) -> None:
        """Show how the node is now, where that is of use; called several times a second."""

    def stop(self) -> None:
        """End; leave the terminal as it was."""
