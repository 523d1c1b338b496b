"""The model's window: the history of a conversation in it, the tools that it reads, and when something has to leave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from forge_cli.core.calls import ToolCall
from forge_cli.core.events import ContextUsage
from forge_cli.core.messages import Attachment, CallResult, Message, OwnWords, ToolSpec, TurnEnd, Usage
from forge_cli.core.source import Source
from forge_cli.core.tool import digest_of
from forge_cli.core.wire import JsonObject, jsonable
from forge_cli.engine.gate.offer import BYTES_A_TOKEN, Offer, size_of, text_for_model, text_tokens
from forge_cli.engine.turns.limits import tokens_of
from forge_cli.files.worker import DEFAULT_TOOL_SHARE
from forge_cli.schema.tool import Tool

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus
    from forge_cli.core.calls import ToolOutcome
    from forge_cli.engine.gate.toolbox import Toolbox
    from forge_cli.sandbox.secrets import Redactor

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
        "attachments": [[file.name, file.media_type, _content(file)] for file in message.attachments],
    }


def _call(call: ToolCall) -> JsonObject:
    """The keys that recorded digests were made with."""
    return {"id": call.id, "name": call.name, "input": call.args, "unreadable": call.unreadable}


def _result(result: CallResult) -> JsonObject:
    """As recorded digests were made, and with the files where there are some."""
    plain = {"call_id": result.call_id, "tool": result.tool, "text": result.text, "is_error": result.is_error}
    files = [[file.media_type, digest_of(file.data)] for file in result.files]
    return {**plain, "files": files} if files else plain


def _content(file: Attachment) -> str:
    """Text as text, in which secrets are seen, as in the record."""
    return file.data.decode("utf-8", "replace") if file.media_type.startswith("text/") else digest_of(file.data)


def args_text(call: ToolCall) -> str:
    """The args of a call, as JSON."""
    return _json_text(jsonable(call.args))


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

    async def make_room(self, system: str, tools: Sequence[ToolSpec], lasting: Collection[str], ask: Ask) -> None:
        """Before a turn: when the window is nearly full, take out what is old.

        What has come since the provider counted is added; without its count everything is guessed.
        """
        specs = sum(text_tokens(_ascii_text(tool.wire())) for tool in tools)
        used, messages = self.counted or (text_tokens(system) + specs, 0)
        self.counted = used + sum(map(tokens_in, self.history[messages:])), len(self.history)
        if self.window is not None and self.used > CROWDED * self.window:
            from forge_cli.engine.turns.room import RoomMaker

            await RoomMaker(self, lasting, ask).reduce(self.window)

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


FIND_TOOLS = "find_tools"
SERVERS = "mcp"
"""The toolset whose tools are deferred before those of any other."""
OWN = Source("builtin", "forge")
Group = tuple[str, str]
WINDOW = 128_000
"""Tokens that a model is taken to have room for where its window is not known."""


class ToolRoom(Struct, frozen=True):
    """How many tokens definitions may take: a share of a window."""

    share: float
    window: int

    @classmethod
    def of(cls, share: float | None, window: int | None) -> ToolRoom:
        return cls(DEFAULT_TOOL_SHARE if share is None else share, window or WINDOW)

    @property
    def tokens(self) -> int:
        return int(self.share * self.window)

    def __str__(self) -> str:
        return f"{self.share:.0%} of a window of {self.window:,}"


def spec_of(tool: Tool) -> ToolSpec:
    """A tool as the model sees it."""
    words: OwnWords = "none"
    if tool.source is not None and tool.source.kind == "builtin":
        words = "schema" if tool.delegates else "all"  # what a worker is for is said by its file
    return ToolSpec(tool.name, text_for_model(tool), tool.schema.json_schema, words)


class OfferedTools:
    """The tools of each turn: all of them, until they do not fit any more; what the model has loaded stays.

    Every tool can be called, loaded or not: a call passes the gate like any other, and loads its tool.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        room: ToolRoom,
        *,
        known: Sequence[str] = (),
        recorded: Sequence[str] | None = None,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """``known`` are the tools that a resumed session was offered last; ``recorded`` those of a replayed one."""
        self.toolbox, self.room, self.tell = toolbox, room, tell
        self.names, self.recorded = tuple(recorded or known), recorded
        """The tools whose definitions the model was given last."""
        self.groups: set[Group] = set()
        """Those that are deferred."""
        self._loaded: dict[str, None] = {}

    async def start(self) -> None:
        """Decide before the first turn, so that the system prompt can name what is deferred."""
        if self._fit:
            return
        from forge_cli.engine.turns.deferred import defer

        if defer(self):
            await self.toolbox.refresh()

    async def refresh(self) -> list[Tool]:
        """The tools of the next turn; tools that came since may have to be deferred, too."""
        await self.toolbox.refresh()
        await self.start()
        offers = self.toolbox.offers
        kept = [offer for offer in offers.values() if not self.is_deferred(offer)]
        loaded = [offers[name] for name in self._loaded if name in offers and self.is_deferred(offers[name])]
        tools = self.toolbox.for_model([*kept, *loaded])
        self.names = tuple(tool.name for tool in tools)
        return tools

    def note(self, outcomes: Iterable[ToolOutcome]) -> None:
        """Load what was found, and what was called without being loaded."""
        if not self.groups:
            return
        from forge_cli.engine.turns.deferred import found_by

        for outcome in outcomes:
            self.load(found_by(outcome))

    def load(self, names: Iterable[str]) -> None:
        offers = self.toolbox.offers
        self._loaded.update((name, None) for name in names if name in offers and self.is_deferred(offers[name]))

    def is_deferred(self, offer: Offer) -> bool:
        """Was it deferred, whether or not it is loaded by now?"""
        return bool(self.groups) and group_of(offer) in self.groups

    @property
    def _fit(self) -> bool:
        """Do all definitions fit? A session that is repeated offers what was offered then."""
        if self.recorded is not None:
            return FIND_TOOLS not in self.recorded or bool(self.groups)
        offers = [offer for offer in self.toolbox.offers.values() if not self.is_deferred(offer)]
        return sum(offer.tokens for offer in offers if self.toolbox.for_model([offer])) <= self.room.tokens


def group_of(offer: Offer) -> Group:
    """The group that is deferred together: the tools of a toolset from one kind of source, or of one server."""
    source = offer.tool.source or OWN
    return offer.toolset, source.origin if offer.toolset == SERVERS else source.kind
