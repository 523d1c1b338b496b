"""Room in the model's window: old results are taken out, and a summary stands for the beginning of a conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from forge_cli.core.errors import ModelError
from forge_cli.core.events import ContextUsage, MessageEvent, StatusEvent
from forge_cli.core.messages import CallResult, Message, Summary, TurnEnd
from forge_cli.core.phrases import ELIDED_RESULT, SUMMARY_INSTRUCTIONS
from forge_cli.engine.gate.offer import BYTES_A_TOKEN, text_tokens
from forge_cli.engine.turns.history import CROWDED, Ask, Context, size_of_result, tokens_in
from forge_cli.engine.turns.summary import summary_message, transcript, verbatim_parts

ROOMY = 0.6
"""The share of a crowded window that may stay.

A removal costs the provider's cache of all that follows, so it is rare, and takes much at once.
"""
WHOLE_TURNS = 3
"""How many of the last turns keep their results."""
SMALL = 500
"""Bytes of a result that is not worth taking out."""
SUMMARY, WORTHWHILE = 0.1, 0.2
"""Shares of the window: what a summary may fill, and what it has to replace at least."""
_COMPACT = 100_000
"""The window, where it is not known, that a summary on demand is made for."""
_SHORTEST = 2
"""Messages that are worth a summary at least."""


@dataclass(frozen=True, eq=False)
class RoomMaker:
    """Makes room in one context; results of ``lasting`` tools stay, and ``ask`` takes a turn with the model."""

    context: Context
    lasting: Collection[str]
    ask: Ask

    async def reduce(self, limit: int) -> None:
        """Old results go, if that is enough; else there is a summary, and at worst even new results go."""
        context = self.context
        context.bus.emit(ContextUsage(context.used, context.window))
        old = self._old_results(ROOMY * limit, WHOLE_TURNS)
        enough = context.used - sum(map(_freed, old)) <= ROOMY * limit
        if enough or not await self._summarise(limit):
            self._elide(old, limit)
        self._elide(self._old_results(ROOMY * limit, 1), limit)
        self._elide(self._old_results(CROWDED * limit, 0), limit)

    async def shrink(self) -> bool:
        """After a request that was too long: take out what is old, with any window; False when nothing could go."""
        context = self.context
        before = context.used
        context.no_summary = False
        await self.reduce(max(1, min(before, context.window or before)))
        return context.used < before

    async def compact(self) -> int | None:
        """On demand, however much room there is: a summary for all but the last turn; returns for how many messages."""
        history = self.context.history
        cut, limit = turns_back(history, 1), self.context.window or _COMPACT
        if cut < _SHORTEST:
            return None
        kept = verbatim_parts(
            history[:cut], self.lasting, room=round(WORTHWHILE * limit * BYTES_A_TOKEN)
        )
        counted = self.context.counted
        done = await self._replace_older(cut, kept, limit)
        self.context.counted = self.context.counted if counted else None
        return cut if done else None

    def _old_results(self, goal: float, whole_turns: int) -> list[CallResult]:
        """The results to take out, from the oldest on, until no more than the goal is used."""
        found: list[CallResult] = []
        used, history = self.context.used, self.context.history
        for message in history[: turns_back(history, whole_turns)]:
            for result in message.results:
                if (
                    used > goal
                    and size_of_result(result) > SMALL
                    and result.tool not in self.lasting
                ):
                    found.append(result)
                    used -= _freed(result)
        return found

    def _elide(self, results: Sequence[CallResult], limit: int) -> None:
        if not results:
            return
        self._tell(limit, f"old results are taken out, of {_sources(results)}")
        context, ids = self.context, tuple(result.call_id for result in results)
        context.counted = max(0, context.used - sum(map(_freed, results))), len(context.history)
        context.bus.emit(ContextUsage(context.used, context.window, elided=ids))
        from forge_cli.record.state import without_results

        context.history.rewrite([without_results(message, set(ids)) for message in context.history])

    async def _summarise(self, limit: int) -> bool:
        """Let the model say what the beginning of the conversation came to; False when it stays as it is."""
        history, cut = self.context.history, self._cut(limit)
        older = history[:cut]
        kept = verbatim_parts(older, self.lasting, room=round(WORTHWHILE * limit * BYTES_A_TOKEN))
        replaced = sum(map(tokens_in, older)) - tokens_in(summary_message(older, kept, "", 0))
        if self.context.no_summary or replaced < WORTHWHILE * limit:
            return False
        self._tell(limit, f"the first {cut} of {len(history)} messages become a summary")
        return await self._replace_older(cut, kept, limit)

    async def _replace_older(self, cut: int, kept: Summary, limit: int) -> bool:
        context, older, done = self.context, self.context.history[:cut], False

        def keep(reply: Message, end: TurnEnd) -> None:
            nonlocal done
            if reply.text.strip() and end.stop != "refusal":
                room = round(SUMMARY * limit * BYTES_A_TOKEN)
                self._replace(older, summary_message(older, kept, reply.text, room))
                done = True

        asked = Message("user", transcript(older, round(ROOMY * limit * BYTES_A_TOKEN)))
        problem = "the model gave none"
        try:
            await self.ask(SUMMARY_INSTRUCTIONS, context.history.apart([asked]), (), keep)
        except ModelError as error:
            problem = error.message
        if done:
            context.bus.emit(ContextUsage(context.used, context.window, summarised=cut))
        else:
            context.no_summary = True
            context.bus.emit(
                StatusEvent("warning", f"there is no summary, and nothing is lost: {problem}")
            )
        return done

    def _cut(self, limit: int) -> int:
        """The end of the older part: before a turn of the model, and late enough that what stays leaves room."""
        used, history = self.context.used, self.context.history
        cuts = [turns_back(history, whole_turns) for whole_turns in range(WHOLE_TURNS, 0, -1)]
        goal = (ROOMY - SUMMARY) * limit
        return next(
            (cut for cut in cuts if used - sum(map(tokens_in, history[:cut])) <= goal), cuts[-1]
        )

    def _replace(self, older: Sequence[Message], summary: Message) -> None:
        context = self.context
        context.bus.emit(MessageEvent(summary, summary_of=len(older)))
        used = context.used - sum(map(tokens_in, older)) + tokens_in(summary)
        context.history.rewrite([summary, *context.history[len(older) :]])
        context.counted = max(0, used), len(context.history)

    def _tell(self, limit: int, what: str) -> None:
        full = f"the model's window is {self.context.used / limit:.0%} full"
        self.context.bus.emit(StatusEvent("info", f"{full}: {what}"))


def turns_back(messages: Sequence[Message], count: int) -> int:
    """The beginning of the last so many turns of the model; for none of them that is after the last message."""
    if not count:
        return len(messages)
    starts = [index for index, message in enumerate(messages) if message.role == "assistant"]
    return starts[-count] if len(starts) >= count else next(iter(starts), 0)


def _freed(result: CallResult) -> int:
    return size_of_result(result) // BYTES_A_TOKEN - text_tokens(ELIDED_RESULT)


def _sources(results: Sequence[CallResult]) -> str:
    """How many results of which tools."""
    counts = Counter(result.tool for result in results)
    return ", ".join(f"{tool} ({count})" if count > 1 else tool for tool, count in counts.items())
