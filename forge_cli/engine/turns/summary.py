"""Requests to the model beside a conversation: a summary of its beginning, which replaces that, and a title."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import aclosing
from itertools import chain

from msgspec.structs import replace

from forge_cli.core import phrases
from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import (
    Message,
    ModelProvider,
    ModelRequest,
    Restart,
    Summary,
    TextDelta,
    TurnEnd,
    Usage,
)
from forge_cli.core.text import cut
from forge_cli.engine.gate.offer import size_of
from forge_cli.engine.turns.history import args_text

_RESULT, _SAID = 2_000, 20_000
"""Characters of a result, or of a call's arguments, and of anything else that was said, in what is to be summarised."""
LONGEST = 60
"""Characters of a title."""
ENOUGH = 120
"""Characters after which forge stops listening: about thirty tokens."""
_TITLED = 2_000
"""Characters of what was said, of the person and of the model, that the title is for."""


def transcript(messages: Sequence[Message], room: int) -> str:
    """A conversation as one text of no more than about ``room`` bytes."""
    told = "\n\n".join(chain.from_iterable(map(_lines, messages)))
    return f"{_cut_bytes(told, room)}\n\n{phrases.SUMMARY_REQUEST}"


def _lines(message: Message) -> Iterator[str]:
    who = "BEFORE THAT" if message.summary else message.role.upper()
    if message.text.strip():
        yield f"{who}: {cut(message.text, _SAID)}"
    for file in message.attachments:
        yield f"{who} attached {file.name}"
    for call in message.calls:
        yield f"{who} called {call.name}: {cut(args_text(call), _RESULT)}"
    for result in message.results:
        yield f"{result.tool} {'failed' if result.is_error else 'gave'}: {cut(result.text, _RESULT)}"


def verbatim_parts(messages: Sequence[Message], lasting: Collection[str], room: int) -> Summary:
    """Parts that no summary replaces: the last words of the user, more as there is room, and lasting calls."""
    said, called, open_calls = list[str](), dict[str, str](), dict[str, ToolCall]()
    for message in messages:
        if message.summary:
            said += message.summary.said
            called |= message.summary.called
        elif message.role == "user" and (text := message.text).strip():
            said += (
                [text]
                if text.startswith(phrases.ENVIRONMENT_CHANGED) or not phrases.is_own(text)
                else []
            )
        open_calls |= {call.id: call for call in message.calls if call.name in lasting}
        for result in message.results:
            if result.call_id in open_calls and not result.is_error:
                called[result.tool] = f"{args_text(open_calls[result.call_id])}\n{result.text}"
    return Summary("", tuple(_newest(said, room)), called)


def _newest(said: Sequence[str], room: int) -> list[str]:
    first = len(said)
    while first and (first == len(said) or sum(map(size_of, said[first - 1 :])) <= room):
        first -= 1
    return list(said[first:])


def summary_message(messages: Sequence[Message], kept: Summary, text: str, room: int) -> Message:
    """The message that stands for these from now on, with a summary of no more than about ``room`` bytes."""
    summary = replace(kept, text=text.strip())
    parts = [
        phrases.SUMMARY_INTRODUCTION,
        *(f"{phrases.SUMMARY_OF_USER}\n\n{said}" for said in summary.said),
        f"{phrases.SUMMARY_OF_EVENTS}\n\n{_cut_bytes(summary.text, room)}",
        *(f"{phrases.summary_of_call(tool)}\n\n{call}" for tool, call in summary.called.items()),
    ]
    given_last = next(
        (message.attachments for message in reversed(messages) if message.attachments), ()
    )
    return Message("user", "\n\n".join(parts), attachments=given_last, summary=summary)


def _cut_bytes(text: str, room: int) -> str:
    return cut(text, room * len(text) // max(1, size_of(text)))


async def ask_for_title(model: ModelProvider, messages: Sequence[Message]) -> tuple[str, Usage]:
    """The model's title of a conversation; empty where it gives none."""
    said = "\n\n".join(
        f"{who.upper()}: {cut(_first(messages, who), _TITLED)}" for who in ("user", "assistant")
    )
    text, end = await listen(
        model, ModelRequest(phrases.TITLE_INSTRUCTIONS, [Message("user", said)], ()), enough=ENOUGH
    )
    return clean_title(text), end.usage if end else Usage()


async def listen(
    model: ModelProvider, request: ModelRequest, *, enough: int | None = None
) -> tuple[str, TurnEnd | None]:
    """The answer to a request beside the conversation, not much longer than ``enough``, and its end if that came."""
    text, end = "", None
    async with aclosing(model.stream(request)) as deltas:
        async for delta in deltas:
            match delta:
                case TextDelta():
                    text += delta.text
                case Restart():
                    text = ""
                case TurnEnd():
                    end = delta
            if enough is not None and len(text) > enough:
                break
    return text, end


def clean_title(text: str) -> str:
    """One line, without the quotes and the full stop that models like to add."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return cut(" ".join(line.split()).strip("\"'`*#. "), LONGEST, "end")


def _first(messages: Sequence[Message], role: str) -> str:
    return next(
        (message.text for message in messages if message.role == role and message.text.strip()), ""
    )
