"""What a slash command may use of the conversation that it is typed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rich.console import RenderableType

from forge_cli.core.bus import EventBus
from forge_cli.core.messages import Attachment
from forge_cli.files.settings import TraceLevel
from forge_cli.ui.chat.facts import Facts


class Chat(Protocol):
    """A conversation, as its commands see it: the worker is reached by events on the bus only."""

    @property
    def bus(self) -> EventBus: ...

    @property
    def facts(self) -> Facts:
        """What the events so far have told."""
        ...

    def show(self, shown: RenderableType) -> None:
        """Print above the line that is being typed; plain strings are shown as they are, without markup."""
        ...

    async def ask(self, prompt: str, default: str = "") -> str | None:
        """A line that the person types for this command alone; None where there is none."""
        ...

    async def fill(self, tool: str, given: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The args of a tool, each field that is not given asked for in a form; None where the person leaves it."""
        ...

    @property
    def trace(self) -> TraceLevel:
        """How much of what happens is shown."""
        ...

    def set_trace(self, level: TraceLevel) -> None:
        """Show more or less of what happens from now on."""
        ...

    def attach(self, attachment: Attachment) -> None:
        """Send this along with the next message."""
        ...

    def leave(self) -> None:
        """End the conversation once the command is done."""
        ...
