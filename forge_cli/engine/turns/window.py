"""The model's window: how full it is, and what leaves the history, and how, before it is too full."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from forge_cli import record
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ModelError
from forge_cli.core.events import ContextUsage, MessageEvent, StatusEvent
from forge_cli.core.messages import CallResult, Message, Summary, ToolSpec, TurnEnd, Usage
from forge_cli.core.phrases import ELIDED_RESULT, SUMMARY_INSTRUCTIONS
from forge_cli.engine import turns
from forge_cli.engine.gate.offer import BYTES_A_TOKEN, size_of, text_tokens
from forge_cli.engine.turns.history import History, args_text
from forge_cli.engine.turns.limits import tokens_of

CROWDED, ROOMY = 0.8, 0.6
"""From which share of the window on something has to go, and how much may stay then.

Whatever goes costs the provider's cache of all that follows, so it goes rarely, and much at once.
"""
WHOLE_TURNS = 3
"""How many of the last turns keep their results."""
SMALL = 500
"""Bytes of a result that is not worth taking out."""
FILE = 6_000
"""Bytes that an image or a document counts as."""
SUMMARY, WORTHWHILE = 0.1, 0.2
"""Shares of the window: what a summary may fill, and what it has to replace at least."""

_ascii_text = json.JSONEncoder().encode
_COMPACT = 100_000
"""The window, where nobody knows it, that a summary on demand is made for."""
_SHORTEST = 2
"""Messages that are worth a summary at least."""

Keep = Callable[[Message, TurnEnd], None]
Ask = Callable[[str, History, Sequence[ToolSpec], Keep], Awaitable[tuple[Message, TurnEnd]]]
"""Takes a turn with the model; its answer is kept before the turn ends."""


@dataclass(kw_only=True)
class Context:
    """Watches over one history; ``counted`` is the last count of its tokens, and how many messages it had then."""

    history: History
    bus: EventBus
    window: int | None
    counted: tuple[int, int] | None = None
    _no_summary: bool = False

    def count(self, usage: Usage) -> None:
        """Tell how full the window is after a turn, if the provider says so."""
        if used := tokens_of(usage):
            self.counted = used, len(self.history)
            self.bus.emit(ContextUsage(used, self.window))

    def clear(self) -> None:
        """Begin anew, with an empty window."""
        self.history.rewrite(())
        self.counted = None
        self.bus.emit(ContextUsage(0, self.window, cleared=True))

    async def make_room(self, system: str, tools: Sequence[ToolSpec], lasting: Collection[str], ask: Ask) -> None:
        """Before a turn: when the window is nearly full, take out what is old."""
        self._count_anew(system, tools)
        if self.window is not None and self._used > CROWDED * self.window:
            await self._reduce(self.window, lasting, ask)

    async def shrink(self, lasting: Collection[str], ask: Ask) -> bool:
        """After a request that was too long: take out what is old, whatever the window; False when nothing could go."""
        before = self._used
        self._no_summary = False
        await self._reduce(max(1, min(before, self.window or before)), lasting, ask)
        return self._used < before

    async def compact(self, lasting: Collection[str], ask: Ask) -> int | None:
        """On demand, however much room there is: a summary for all but the last turn; returns for how many messages."""
        cut, limit = turns_back(self.history, 1), self.window or _COMPACT
        if cut < _SHORTEST:
            return None
        kept = turns.summary.verbatim_parts(self.history[:cut], lasting, room=round(WORTHWHILE * limit * BYTES_A_TOKEN))
        counted = self.counted
        done = await self._replace_older(cut, kept, limit, ask)
        self.counted = self.counted if counted else None
        return cut if done else None

    @property
    def _used(self) -> int:
        return self.counted[0] if self.counted else 0

    def _count_anew(self, system: str, tools: Sequence[ToolSpec]) -> None:
        """Add what has come since the provider counted; without its count everything is guessed."""
        used, messages = self.counted or (text_tokens(system) + sum(map(_spec_tokens, tools)), 0)
        self.counted = used + sum(map(tokens_in, self.history[messages:])), len(self.history)

    async def _reduce(self, limit: int, lasting: Collection[str], ask: Ask) -> None:
        """Old results go, if that is enough; else there is a summary, and at worst even new results go."""
        self.bus.emit(ContextUsage(self._used, self.window))
        old = self._old_results(ROOMY * limit, WHOLE_TURNS, lasting)
        enough = self._used - sum(map(_freed, old)) <= ROOMY * limit
        if enough or not await self._summarise(limit, lasting, ask):
            self._elide(old, limit)
        self._elide(self._old_results(ROOMY * limit, 1, lasting), limit)
        self._elide(self._old_results(CROWDED * limit, 0, lasting), limit)

    def _old_results(self, goal: float, whole_turns: int, lasting: Collection[str]) -> list[CallResult]:
        """The results to take out, from the oldest on, until no more than the goal is used."""
        found: list[CallResult] = []
        used = self._used
        for message in self.history[: turns_back(self.history, whole_turns)]:
            for result in message.results:
                if used > goal and _size(result) > SMALL and result.tool not in lasting:
                    found.append(result)
                    used -= _freed(result)
        return found

    def _elide(self, results: Sequence[CallResult], limit: int) -> None:
        if not results:
            return
        self._tell(limit, f"old results are taken out, of {_sources(results)}")
        ids = tuple(result.call_id for result in results)
        self.counted = max(0, self._used - sum(map(_freed, results))), len(self.history)
        self.bus.emit(ContextUsage(self._used, self.window, elided=ids))
        self.history.rewrite([record.resume.without(message, set(ids)) for message in self.history])

    async def _summarise(self, limit: int, lasting: Collection[str], ask: Ask) -> bool:
        """Let the model say what the beginning of the conversation came to; False when it stays as it is."""
        cut = self._cut(limit)
        older = self.history[:cut]
        kept = turns.summary.verbatim_parts(older, lasting, room=round(WORTHWHILE * limit * BYTES_A_TOKEN))
        replaced = sum(map(tokens_in, older)) - tokens_in(turns.summary.summary_message(older, kept, "", 0))
        if self._no_summary or replaced < WORTHWHILE * limit:
            return False
        self._tell(limit, f"the first {cut} of {len(self.history)} messages become a summary")
        return await self._replace_older(cut, kept, limit, ask)

    async def _replace_older(self, cut: int, kept: Summary, limit: int, ask: Ask) -> bool:
        older, done = self.history[:cut], False

        def keep(reply: Message, end: TurnEnd) -> None:
            nonlocal done
            if reply.text.strip() and end.stop != "refusal":
                room = round(SUMMARY * limit * BYTES_A_TOKEN)
                self._replace(older, turns.summary.summary_message(older, kept, reply.text, room))
                done = True

        asked = Message("user", turns.summary.transcript(older, round(ROOMY * limit * BYTES_A_TOKEN)))
        problem = "the model gave none"
        try:
            await ask(SUMMARY_INSTRUCTIONS, self.history.apart([asked]), (), keep)
        except ModelError as error:
            problem = error.message
        if done:
            self.bus.emit(ContextUsage(self._used, self.window, summarised=cut))
        else:
            self._no_summary = True
            self.bus.emit(StatusEvent("warning", f"there is no summary, and nothing is lost: {problem}"))
        return done

    def _cut(self, limit: int) -> int:
        """Where the older part ends: before a turn of the model, and late enough that what stays leaves room."""
        cuts = [turns_back(self.history, whole_turns) for whole_turns in range(WHOLE_TURNS, 0, -1)]
        goal = (ROOMY - SUMMARY) * limit
        return next((cut for cut in cuts if self._used - sum(map(tokens_in, self.history[:cut])) <= goal), cuts[-1])

    def _replace(self, older: Sequence[Message], summary: Message) -> None:
        self.bus.emit(MessageEvent(summary, summary_of=len(older)))
        used = self._used - sum(map(tokens_in, older)) + tokens_in(summary)
        self.history.rewrite([summary, *self.history[len(older) :]])
        self.counted = max(0, used), len(self.history)

    def _tell(self, limit: int, what: str) -> None:
        self.bus.emit(StatusEvent("info", f"the model's window is {self._used / limit:.0%} full: {what}"))


def turns_back(messages: Sequence[Message], count: int) -> int:
    """Where the last so many turns of the model begin; for none of them that is after the last message."""
    if not count:
        return len(messages)
    starts = [index for index, message in enumerate(messages) if message.role == "assistant"]
    return starts[-count] if len(starts) >= count else next(iter(starts), 0)


def tokens_in(message: Message) -> int:
    """A guess; what is not text counts little, since nobody reads it byte by byte."""
    tokens = text_tokens(message.text)
    for call in message.calls:
        tokens += text_tokens(f"{call.name}{args_text(call)}")
    for result in message.results:
        tokens += _size(result) // BYTES_A_TOKEN
    files = [len(file.data) if file.media_type.startswith("text/") else FILE for file in message.attachments]
    return tokens + sum(files) // BYTES_A_TOKEN


def _size(result: CallResult) -> int:
    """Bytes that a result counts as."""
    return size_of(result.text) + FILE * len(result.files)


def _spec_tokens(tool: ToolSpec) -> int:
    return text_tokens(_ascii_text(tool.wire()))


def _freed(result: CallResult) -> int:
    return _size(result) // BYTES_A_TOKEN - text_tokens(ELIDED_RESULT)


def _sources(results: Sequence[CallResult]) -> str:
    """How many results of which tools."""
    counts = Counter(result.tool for result in results)
    return ", ".join(f"{tool} ({count})" if count > 1 else tool for tool, count in counts.items())
