"""The messages of a conversation, and how full they make the model's window."""

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
"""The share of the window above which room has to be made."""
FILE_SIZE = 6_000
"""Bytes that an image or a document counts as."""

_ascii_text = json.JSONEncoder().encode
_json_text = json.JSONEncoder(ensure_ascii=False).encode
_sorted_text = json.JSONEncoder(sort_keys=True).encode


class History(list[Message]):
    """Messages in order, with a digest that is made without secrets, like the log."""

    def __init__(self, messages: Iterable[Message] = (), redactor: Redactor | None = None) -> None:
        super().__init__()
        self._redactor = redactor
        self.call_ids: set[str] = set()
        """Every ID that a call has had here, also in messages that were removed."""
        self.rewrite(messages)

    def append(self, message: Message) -> None:
        super().append(message)
        self.call_ids.update([call.id for call in message.calls])

    def rewrite(self, messages: Iterable[Message]) -> None:
        """Replace all messages, to make room."""
        # A copy, because ``messages`` may be read from this list.
        kept = tuple(messages)
        self.clear()
        self._hash = hashlib.sha256()
        self._hashed = 0
        """The number of messages in the hash; the others are added when a digest is needed."""
        for message in kept:
            self.append(message)

    def apart(self, messages: Iterable[Message]) -> History:
        """Return another history for these messages, which redacts as this one does."""
        return History(messages, self._redactor)

    def without_names(self) -> History:
        """Return this history without the redaction by names of keys, which old logs lack."""
        return History(self, self._redactor and self._redactor.without_names())

    def digest(self, system: str, tools: Sequence[ToolSpec]) -> str:
        """Return the hash of a request: history, system prompt and tools."""
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
    # the keys that recorded digests were made with: renaming one would break old logs
    return {"id": call.id, "name": call.name, "input": call.args, "unreadable": call.unreadable}


def _result(result: CallResult) -> JsonObject:
    # without "files" if there are none, as recorded digests were made
    plain = {
        "call_id": result.call_id,
        "tool": result.tool,
        "text": result.text,
        "is_error": result.is_error,
    }
    files = [[file.media_type, digest_of(file.data)] for file in result.files]
    return {**plain, "files": files} if files else plain


def _content(file: Attachment) -> str:
    # secrets are found in text only, so text goes into the digest as text
    if file.media_type.startswith("text/"):
        return file.data.decode("utf-8", "replace")
    return digest_of(file.data)


def args_text(call: ToolCall) -> str:
    """Return the arguments of a call as JSON."""
    return _json_text(jsonable(call.args))


Keep = Callable[[Message, TurnEnd], None]
Ask = Callable[[str, History, Sequence[ToolSpec], Keep], Awaitable[tuple[Message, TurnEnd]]]
"""A function that takes a turn with the model, and passes the answer on before the turn ends."""


class Context(Struct, kw_only=True):
    """The window of one history; ``counted`` are its tokens and messages at the last count."""

    history: History
    bus: EventBus
    window: int | None
    counted: tuple[int, int] | None = None
    no_summary: bool = False
    """True if the model was asked for a summary and gave none."""

    def count(self, usage: Usage) -> None:
        """Report how full the window is after a turn, if the provider counted."""
        if used := tokens_of(usage):
            self.counted = (used, len(self.history))
            self.bus.emit(ContextUsage(used, self.window))

    def clear(self, kept: Sequence[Message] = (), line: int | None = None) -> None:
        """Start over with an empty window, or with the messages before a line of the log."""
        self.history.rewrite(kept)
        self.counted = None
        used = sum(map(tokens_in, kept))
        cleared = True if line is None else None
        self.bus.emit(ContextUsage(used, self.window, cleared=cleared, rewound=line))

    def find_crowded(self, system: str, tools: Sequence[ToolSpec]) -> int | None:
        """Return the window if it is too full for a turn, else None.

        Messages since the provider's last count are estimated; without a count, everything is.
        """
        if self.counted is None:
            definitions = sum(text_tokens(_ascii_text(tool.wire())) for tool in tools)
            self.counted = (text_tokens(system) + definitions, 0)
        used, messages = self.counted
        used += sum(map(tokens_in, self.history[messages:]))
        self.counted = (used, len(self.history))
        if self.window is None or self.used <= CROWDED * self.window:
            return None
        return self.window

    @property
    def used(self) -> int:
        """The tokens in the window, as far as they are known."""
        return self.counted[0] if self.counted else 0


def tokens_in(message: Message) -> int:
    """Estimate the tokens of a message; files that are not text count little."""
    tokens = text_tokens(message.text)
    for call in message.calls:
        tokens += text_tokens(f"{call.name}{args_text(call)}")
    for result in message.results:
        tokens += size_of_result(result) // BYTES_A_TOKEN
    size = 0
    for file in message.attachments:
        size += len(file.data) if file.media_type.startswith("text/") else FILE_SIZE
    return tokens + size // BYTES_A_TOKEN


def size_of_result(result: CallResult) -> int:
    """Return the bytes that a result counts as."""
    return size_of(result.text) + FILE_SIZE * len(result.files)
