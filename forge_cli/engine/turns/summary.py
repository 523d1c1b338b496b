"""Requests beside a conversation: a summary of its beginning, and a title."""

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

_MAX_RESULT = 2_000
"""Characters of a result, or of a call's arguments, in the text to summarize."""
_MAX_SAID = 20_000
"""Characters of any other message in the text to summarize."""
MAX_TITLE = 60
"""Characters of a title."""
MAX_TITLE_ANSWER = 120
"""Characters after which the answer to a request for a title is cut off."""
_MAX_TITLED = 2_000
"""Characters of each message that a title is made from."""


def transcript(messages: Sequence[Message], room: int) -> str:
    """Return a conversation as one text of about ``room`` bytes at most."""
    told = "\n\n".join(chain.from_iterable(map(_lines, messages)))
    return f"{_cut_bytes(told, room)}\n\n{phrases.SUMMARY_REQUEST}"


def _lines(message: Message) -> Iterator[str]:
    who = "BEFORE THAT" if message.summary else message.role.upper()
    if message.text.strip():
        yield f"{who}: {cut(message.text, _MAX_SAID)}"
    for file in message.attachments:
        yield f"{who} attached {file.name}"
    for call in message.calls:
        yield f"{who} called {call.name}: {cut(args_text(call), _MAX_RESULT)}"
    for result in message.results:
        verb = "failed" if result.is_error else "gave"
        yield f"{result.tool} {verb}: {cut(result.text, _MAX_RESULT)}"


def verbatim_parts(messages: Sequence[Message], lasting: Collection[str], room: int) -> Summary:
    """Return the parts that no summary replaces: texts of the user, and lasting calls."""
    said: list[str] = []
    called: dict[str, str] = {}
    open_calls: dict[str, ToolCall] = {}
    for message in messages:
        text = message.text
        if message.summary:
            said += message.summary.said
            called |= message.summary.called
        elif message.role == "user" and text.strip():
            # of forge's own messages only the environment stays true
            is_lasting = text.startswith(phrases.ENVIRONMENT_CHANGED)
            if is_lasting or not phrases.is_own(text):
                said.append(text)
        open_calls |= {call.id: call for call in message.calls if call.name in lasting}
        for result in message.results:
            if result.call_id in open_calls and not result.is_error:
                called[result.tool] = f"{args_text(open_calls[result.call_id])}\n{result.text}"
    return Summary("", tuple(_newest(said, room)), called)


def _newest(said: Sequence[str], room: int) -> list[str]:
    """Return the last texts that fit into the room; at least one, however long."""
    first = len(said)
    while first and (first == len(said) or sum(map(size_of, said[first - 1 :])) <= room):
        first -= 1
    return list(said[first:])


def summary_message(messages: Sequence[Message], kept: Summary, text: str, room: int) -> Message:
    """Return the message that replaces others, with a summary of about ``room`` bytes at most."""
    summary = replace(kept, text=text.strip())
    parts = [phrases.SUMMARY_INTRODUCTION]
    parts += [f"{phrases.SUMMARY_OF_USER}\n\n{said}" for said in summary.said]
    parts.append(f"{phrases.SUMMARY_OF_EVENTS}\n\n{_cut_bytes(summary.text, room)}")
    for tool, call in summary.called.items():
        parts.append(f"{phrases.summary_of_call(tool)}\n\n{call}")
    given_last = next(
        (message.attachments for message in reversed(messages) if message.attachments), ()
    )
    return Message("user", "\n\n".join(parts), attachments=given_last, summary=summary)


def _cut_bytes(text: str, room: int) -> str:
    # From bytes to characters, as ``cut`` counts them.
    return cut(text, room * len(text) // max(1, size_of(text)))


async def ask_for_title(model: ModelProvider, messages: Sequence[Message]) -> tuple[str, Usage]:
    """Return the model's title of a conversation, empty if it gives none."""
    user = cut(_first(messages, "user"), _MAX_TITLED)
    assistant = cut(_first(messages, "assistant"), _MAX_TITLED)
    asked = Message("user", f"USER: {user}\n\nASSISTANT: {assistant}")
    request = ModelRequest(phrases.TITLE_INSTRUCTIONS, [asked], ())
    text, end = await listen(model, request, enough=MAX_TITLE_ANSWER)
    return clean_title(text), end.usage if end else Usage()


async def listen(
    model: ModelProvider, request: ModelRequest, *, enough: int | None = None
) -> tuple[str, TurnEnd | None]:
    """Return the answer to a request beside the conversation, and its end if there was one."""
    text = ""
    end: TurnEnd | None = None
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
    """Return one line without the quotes and the full stop that models like to add."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return cut(" ".join(line.split()).strip("\"'`*#. "), MAX_TITLE, "end")


def _first(messages: Sequence[Message], role: str) -> str:
    return next(
        (message.text for message in messages if message.role == role and message.text.strip()), ""
    )
