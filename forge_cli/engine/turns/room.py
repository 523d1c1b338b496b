"""Room in the model's window: old results are removed, and old messages are summarized."""

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
"""The share of the window that is left in use.

A removal makes the provider's cache useless from there on, so it is rare and removes a lot.
"""
WHOLE_TURNS = 3
"""The number of last turns that keep their results."""
MIN_RESULT_SIZE = 500
"""Bytes of a result; smaller ones are not worth removing."""
SUMMARY = 0.1
"""The share of the window that a summary may fill."""
WORTHWHILE = 0.2
"""The share of the window that a summary has to replace."""
_UNKNOWN_WINDOW = 100_000
"""The window that a summary on demand is made for, if the real one is unknown."""
_MIN_MESSAGES = 2
"""Messages that a summary on demand has to replace."""


@dataclass(frozen=True, eq=False)
class RoomMaker:
    """Room in one context; results of ``lasting`` tools stay, ``ask`` takes a turn."""

    context: Context
    lasting: Collection[str]
    ask: Ask

    async def reduce(self, limit: int) -> None:
        """Remove old results, or summarize if that is not enough, or even remove new results."""
        context = self.context
        context.bus.emit(ContextUsage(context.used, context.window))
        old = self._old_results(ROOMY * limit, WHOLE_TURNS)
        enough = context.used - sum(map(_freed, old)) <= ROOMY * limit
        if enough or not await self._summarise(limit):
            self._elide(old, limit)
        # Both find nothing to remove if there is enough room already.
        self._elide(self._old_results(ROOMY * limit, 1), limit)
        self._elide(self._old_results(CROWDED * limit, 0), limit)

    async def shrink(self) -> bool:
        """Remove old messages after a request that was too long; return False if none could go."""
        context = self.context
        before = context.used
        context.no_summary = False
        # The request was too long, so the real window is no larger than what was sent.
        await self.reduce(max(1, min(before, context.window or before)))
        return context.used < before

    async def compact(self) -> int | None:
        """Summarize all but the last turn on demand; return the number of messages, or None."""
        history = self.context.history
        cut = turns_back(history, 1)
        limit = self.context.window or _UNKNOWN_WINDOW
        if cut < _MIN_MESSAGES:
            return None
        kept = verbatim_parts(
            history[:cut], self.lasting, room=round(WORTHWHILE * limit * BYTES_A_TOKEN)
        )
        counted = self.context.counted
        done = await self._replace_older(cut, kept, limit)
        if not counted:
            # Then the next turn estimates everything, with the system prompt and the tools.
            self.context.counted = None
        return cut if done else None

    def _old_results(self, goal: float, whole_turns: int) -> list[CallResult]:
        """Return the results to remove, the oldest first, until the goal is reached."""
        found: list[CallResult] = []
        used = self.context.used
        history = self.context.history
        for message in history[: turns_back(history, whole_turns)]:
            for result in message.results:
                is_large = size_of_result(result) > MIN_RESULT_SIZE
                if used > goal and is_large and result.tool not in self.lasting:
                    found.append(result)
                    used -= _freed(result)
        return found

    def _elide(self, results: Sequence[CallResult], limit: int) -> None:
        if not results:
            return
        self._tell(limit, f"old results are removed, of {_sources(results)}")
        context = self.context
        ids = tuple(result.call_id for result in results)
        used = max(0, context.used - sum(map(_freed, results)))
        context.counted = (used, len(context.history))
        context.bus.emit(ContextUsage(context.used, context.window, elided=ids))
        from forge_cli.record.state import without_results

        context.history.rewrite([without_results(message, set(ids)) for message in context.history])

    async def _summarise(self, limit: int) -> bool:
        """Summarize the beginning of the conversation; return False if it stays as it is."""
        history = self.context.history
        cut = self._cut(limit)
        older = history[:cut]
        kept = verbatim_parts(older, self.lasting, room=round(WORTHWHILE * limit * BYTES_A_TOKEN))
        replaced = sum(map(tokens_in, older)) - tokens_in(summary_message(older, kept, "", 0))
        if self.context.no_summary or replaced < WORTHWHILE * limit:
            return False
        self._tell(limit, f"the first {cut} of {len(history)} messages are replaced by a summary")
        return await self._replace_older(cut, kept, limit)

    async def _replace_older(self, cut: int, kept: Summary, limit: int) -> bool:
        context = self.context
        older = context.history[:cut]
        done = False

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
            problem = f"no summary was made, and nothing is lost: {problem}"
            context.bus.emit(StatusEvent("warning", problem))
        return done

    def _cut(self, limit: int) -> int:
        """Return the end of the part to summarize, so that the rest leaves enough room."""
        used = self.context.used
        history = self.context.history
        cuts = [turns_back(history, whole_turns) for whole_turns in range(WHOLE_TURNS, 0, -1)]
        goal = (ROOMY - SUMMARY) * limit
        for cut in cuts:
            if used - sum(map(tokens_in, history[:cut])) <= goal:
                return cut
        return cuts[-1]

    def _replace(self, older: Sequence[Message], summary: Message) -> None:
        context = self.context
        context.bus.emit(MessageEvent(summary, summary_of=len(older)))
        used = context.used - sum(map(tokens_in, older)) + tokens_in(summary)
        context.history.rewrite([summary, *context.history[len(older) :]])
        context.counted = (max(0, used), len(context.history))

    def _tell(self, limit: int, what: str) -> None:
        full = f"the model's window is {self.context.used / limit:.0%} full"
        self.context.bus.emit(StatusEvent("info", f"{full}: {what}"))


def turns_back(messages: Sequence[Message], count: int) -> int:
    """Return where the last ``count`` turns of the model begin; 0 turns begin after the end."""
    if not count:
        return len(messages)
    starts = [index for index, message in enumerate(messages) if message.role == "assistant"]
    if len(starts) >= count:
        return starts[-count]
    return starts[0] if starts else 0


def _freed(result: CallResult) -> int:
    return size_of_result(result) // BYTES_A_TOKEN - text_tokens(ELIDED_RESULT)


def _sources(results: Sequence[CallResult]) -> str:
    """Return the tools of results with their counts."""
    counts = Counter(result.tool for result in results)
    return ", ".join(f"{tool} ({count})" if count > 1 else tool for tool, count in counts.items())
