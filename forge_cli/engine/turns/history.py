"""The messages of a conversation, in the order in which the model reads them, and how full they make its window."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from forge_cli.core.calls import ToolCall
from forge_cli.core.events import ContextUsage
from forge_cli.core.messages import Attachment, CallResult, Message, ToolSpec, TurnEnd, Usage
from forge_cli.core.tool import digest_of
from forge_cli.core.wire import JsonObject, jsonable
from forge_cli.engine.gate.offer import BYTES_A_TOKEN, size_of, text_tokens
from forge_cli.engine.turns.limits import tokens_of

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus
    from forge_cli.sandbox.secrets import Redactor

CROWDED = 0.8
"""From which share of the window on something has to go."""
FILE = 6_000
"""Bytes that an image or a document counts as."""

_ascii_text = json.JSONEncoder().encode
_json_text = json.JSONEncoder(ensure_ascii=False).encode
_sorted_text = json.JSONEncoder(sort_keys=True).encode


class History(list[Message]):
    """Messages in order; the digest sees them as the record does, without secrets."""

    def __init__(self, messages: Iterable[Message] = (), redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor
        self.call_ids: set[str] = set()
        """Every id that a call has had here, also in messages that were taken out since."""
        self.rewrite(messages)

    def append(self, message: Message) -> None:
        super().append(message)
        self.call_ids.update([call.id for call in message.calls])

    def rewrite(self, messages: Iterable[Message]) -> None:
        """Start over with these messages, to make room."""
        kept = tuple(messages)
        self.clear()
        self._hash = hashlib.sha256()
        self._hashed = 0
        """How many of the messages are in the hash: the others are added when somebody asks for a digest."""
        for message in kept:
            self.append(message)

    def apart(self, messages: Iterable[Message]) -> History:
        """A history of its own for these messages, as discreet as this one."""
        return History(messages, self._redactor)

    def without_names(self) -> History:
        """The same as forge saw it before it took values for secrets because of the names of their keys."""
        return History(self, self._redactor and self._redactor.without_names())

    def digest(self, system: str, tools: Sequence[ToolSpec]) -> str:
        """The hash of a whole request: history, system prompt and tools."""
        new = [_plain(message) for message in self[self._hashed :]]
        if self._redactor:
            new = self._redactor.redact(new)
        self._hash.update("".join(map(_sorted_text, new)).encode())
        self._hashed = len(self)
        running = self._hash.copy()
        running.update(_sorted_text([system, [tool.wire() for tool in tools]]).encode())
        return running.hexdigest()


def _plain(message: Message) -> JsonObject:
    return {
        "role": message.role,
        "text": message.text,
        "calls": [_call(call) for call in message.calls],
        "results": [_result(result) for result in message.results],
        "attachments": [
            [file.name, file.media_type, _content(file)] for file in message.attachments
        ],
    }


def _call(call: ToolCall) -> JsonObject:
    """The keys that recorded digests were made with."""
    return {"id": call.id, "name": call.name, "input": call.args, "unreadable": call.unreadable}


def _result(result: CallResult) -> JsonObject:
    """As recorded digests were made, and with the files where there are some."""
    plain = {
        "call_id": result.call_id,
        "tool": result.tool,
        "text": result.text,
        "is_error": result.is_error,
    }
    files = [[file.media_type, digest_of(file.data)] for file in result.files]
    return {**plain, "files": files} if files else plain


def _content(file: Attachment) -> str:
    """Text as text, in which secrets are seen, as in the record."""
    return (
        file.data.decode("utf-8", "replace")
        if file.media_type.startswith("text/")
        else digest_of(file.data)
    )


def args_text(call: ToolCall) -> str:
    """The args of a call, as JSON."""
    return _json_text(jsonable(call.args))


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
        self.bus.emit(
            ContextUsage(
                sum(map(tokens_in, kept)), self.window, cleared=line is None or None, rewound=line
            )
        )

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
    files = [
        len(file.data) if file.media_type.startswith("text/") else FILE
        for file in message.attachments
    ]
    return tokens + sum(files) // BYTES_A_TOKEN


def size_of_result(result: CallResult) -> int:
    """Bytes that a result counts as."""
    return size_of(result.text) + FILE * len(result.files)
