"""The title of a conversation: the model is asked for one, beside the conversation, in a few tokens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from forge_cli.core.messages import Message, ModelProvider, ModelRequest, Restart, TextDelta, TurnEnd, Usage
from forge_cli.core.phrases import TITLE_INSTRUCTIONS
from forge_cli.core.text import cut

LONGEST = 60
"""Characters of a title."""
ENOUGH = 120
"""Characters after which nobody listens any longer: about thirty tokens."""
_SAID = 2_000
"""Characters of what was said, of the person and of the model, that the title is for."""


async def ask_for_title(model: ModelProvider, messages: Sequence[Message]) -> tuple[str, Usage]:
    """What the model would call a conversation; empty where it says nothing."""
    said = "\n\n".join(f"{who.upper()}: {cut(_first(messages, who), _SAID)}" for who in ("user", "assistant"))
    text, usage = "", Usage()
    async with aclosing(model.stream(ModelRequest(TITLE_INSTRUCTIONS, [Message("user", said)], ()))) as deltas:
        async for delta in deltas:
            match delta:
                case TextDelta():
                    text += delta.text
                case Restart():
                    text = ""
                case TurnEnd():
                    usage = delta.usage
            if len(text) > ENOUGH:
                break
    return clean_title(text), usage


def clean_title(text: str) -> str:
    """One line, without the quotes and the full stop that models like to add."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return cut(" ".join(line.split()).strip("\"'`*#. "), LONGEST, "end")


def _first(messages: Sequence[Message], role: str) -> str:
    return next((message.text for message in messages if message.role == role and message.text.strip()), "")
