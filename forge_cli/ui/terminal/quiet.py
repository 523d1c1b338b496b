"""A terminal without a viewer: only what the trace tells even at ``quiet``, which is loaded for the first of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Self, TextIO, cast

from forge_cli.core.bus import EventBus
from forge_cli.core.events import Event, StatusEvent

if TYPE_CHECKING:
    from forge_cli.ui.views import FindRenderer


class QuietUI:
    """In the place of a ``TerminalUI`` that neither prompts nor streams, for as long as it is entered."""

    def __init__(self, bus: EventBus, *, trace_output: TextIO, find: FindRenderer) -> None:
        self._bus, self._output, self._find = bus, trace_output, find
        self._stack = ExitStack()

    async def __aenter__(self) -> Self:
        self._stack.callback(self._bus.subscribe(self._show))
        return self

    async def __aexit__(self, *error: object) -> None:
        self._stack.close()

    def _show(self, event: Event) -> None:
        if isinstance(event, StatusEvent) and event.level in ("warning", "error"):
            self._trace(event)

    @cached_property
    def _trace(self) -> Callable[[Event], None]:
        module = import_module("forge_cli.ui.terminal.trace")
        console = import_module("forge_cli.ui.terminal.console").new_console(self._output)
        return cast(Callable[[Event], None], module.trace_formatter("quiet", console, self._find))
