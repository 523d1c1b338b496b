"""A command that was typed in a tab: what it shows goes back to that tab alone, as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from io import StringIO
from typing import Any, NoReturn

from rich.console import Console, RenderableType
from rich.text import Text

from forge_cli.core.bus import EventBus
from forge_cli.core.errors import UsageError
from forge_cli.core.messages import Attachment
from forge_cli.core.wire import JsonObject, jsonable
from forge_cli.files.settings import TraceLevel
from forge_cli.ui.facts import Facts


class TabChat:
    """The conversation, as the commands of one line see it."""

    def __init__(self, bus: EventBus, facts: Facts, columns: int, leave: Callable[[], None]) -> None:
        self.bus, self.facts, self.leave = bus, facts, leave
        self.attached: list[Attachment] = []
        self._said = StringIO()
        self._console = Console(file=self._said, width=columns, color_system=None, highlight=False)
        self._form: JsonObject | None = None

    def show(self, shown: RenderableType) -> None:
        self._console.print(Text(shown) if isinstance(shown, str) else shown)

    def unfold(self, number: int | None) -> None:
        raise UsageError("a page shows every result whole", hint="a call opens by a click")

    async def ask(self, prompt: str, instead: str) -> None:
        """Say what to do instead: a page takes no line for one command."""
        self.show(instead)

    async def fill(self, tool: str, given: Mapping[str, Any]) -> None:
        """The page shows the form, and calls the tool itself."""
        self._form = {"tool": tool, "given": jsonable(given)}

    def attach(self, attachment: Attachment) -> None:
        self.attached.append(attachment)

    @property
    def trace(self) -> TraceLevel:
        _no_trace()

    def set_trace(self, level: TraceLevel) -> None:
        _no_trace()

    def answer(self) -> JsonObject:
        """The answer to the tab."""
        shown = "\n".join(line.rstrip() for line in self._said.getvalue().rstrip("\n").split("\n"))
        return {"shown": shown, "form": self._form}


def _no_trace() -> NoReturn:
    raise UsageError("a page has no trace level", hint="every call opens by a click")
