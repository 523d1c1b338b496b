"""The model's window: how full a conversation makes it, and when something has to leave."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from forge_cli.core.events import ContextUsage
from forge_cli.core.messages import CallResult, Message, ToolSpec, TurnEnd, Usage
from forge_cli.engine.gate.offer import BYTES_A_TOKEN, size_of, text_tokens
from forge_cli.engine.turns.history import History, args_text
from forge_cli.engine.turns.limits import tokens_of

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus

CROWDED = 0.8
"""From which share of the window on something has to go."""
FILE = 6_000
"""Bytes that an image or a document counts as."""

_ascii_text = json.JSONEncoder().encode

Keep = Callable[[Message, TurnEnd], None]
Ask = Callable[[str, History, Sequence[ToolSpec], Keep], Awaitable[tuple[Message, TurnEnd]]]
"""Takes a turn with the model; its answer is kept before the turn ends."""


class Context(Struct, kw_only=True):
    """Watches over one history; ``counted`` is the last count of its tokens, and how many messages it had then."""

    history: History
    bus: EventBus
    window: int | None
    counted: tuple[int, int] | None = None
    no_summary: bool = False
    """Whether the model was asked for a summary in vain."""

    def count(self, usage: Usage) -> None:
        """Tell how full the window is after a turn, if the provider says so."""
        if used := tokens_of(usage):
            self.counted = used, len(self.history)
            self.bus.emit(ContextUsage(used, self.window))

    def clear(self, kept: Sequence[Message] = (), line: int | None = None) -> None:
        """Start over, with an empty window, or with what had been said before a line of the log."""
        self.history.rewrite(kept)
        self.counted = None
        self.bus.emit(ContextUsage(sum(map(tokens_in, kept)), self.window, cleared=line is None or None, rewound=line))

    def find_crowded(self, system: str, tools: Sequence[ToolSpec]) -> int | None:
        """Count before a turn how full the window is; return the window if something has to leave it.

        What has come since the provider counted is added; without its count everything is guessed.
        """
        if self.counted is None:
            definitions = sum(text_tokens(_ascii_text(tool.wire())) for tool in tools)
            self.counted = text_tokens(system) + definitions, 0
        used, messages = self.counted
        self.counted = used + sum(map(tokens_in, self.history[messages:])), len(self.history)
        if self.window is None or self.used <= CROWDED * self.window:
            return None
        return self.window

    @property
    def used(self) -> int:
        """How many tokens it holds, as far as that is known."""
        return self.counted[0] if self.counted else 0


def tokens_in(message: Message) -> int:
    """A guess; what is not text counts little, since a model does not read it byte by byte."""
    tokens = text_tokens(message.text)
    for call in message.calls:
        tokens += text_tokens(f"{call.name}{args_text(call)}")
    for result in message.results:
        tokens += size_of_result(result) // BYTES_A_TOKEN
    files = [len(file.data) if file.media_type.startswith("text/") else FILE for file in message.attachments]
    return tokens + sum(files) // BYTES_A_TOKEN


def size_of_result(result: CallResult) -> int:
    """Bytes that a result counts as."""
    return size_of(result.text) + FILE * len(result.files)
