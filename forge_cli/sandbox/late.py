"""A sandbox of which the zones are open and known; what reaches into them is loaded when a path is first used."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forge_cli.core.zones import Zone
    from forge_cli.sandbox.files.sandbox import CallSandbox, Sandbox
    from forge_cli.sandbox.zones.zones import Isolation


class LateSandbox:
    """The zones of one worker, and the sandbox around them, loaded at the first use."""

    def __init__(self, zones: Sequence[Zone], isolation: Isolation, make: Callable[[], Sandbox]) -> None:
        self.zones, self.isolation = tuple(zones), isolation
        self._make = make

    @cached_property
    def opened(self) -> Sandbox:
        """The sandbox itself, which acts without asking for consent."""
        return self._make()

    @cached_property
    def view(self) -> CallSandbox:
        """The sandbox for code that no call has declared a path for."""
        return self.opened.view()
