"""Turns with a model, from outside the event loop."""

from typing import Any

import anyio

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import Delta, Message, ModelRequest, TextDelta, ToolSpec, TurnEnd
from forge_cli.models.openai.provider import OpenAIModel

USER = Message("user", "hello")
ADD = ToolSpec(
    "add",
    "Add two numbers.",
    {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 0},
            "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["a"],
        "additionalProperties": False,
    },
)


def turns(model: OpenAIModel, *requests: ModelRequest) -> list[list[Delta]]:
    async def talk() -> list[list[Delta]]:
        try:
            with anyio.fail_after(60):
                return [[delta async for delta in model.stream(request)] for request in requests]
        finally:
            await model.aclose()

    return anyio.run(talk)


def turn(
    model: OpenAIModel, *messages: Message, system: str = "", tools: tuple[ToolSpec, ...] = ()
) -> list[Delta]:
    (heard,) = turns(model, ModelRequest(system, messages or (USER,), tools))
    return heard


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def calls_of(deltas: list[Delta]) -> list[ToolCall]:
    return [delta for delta in deltas if isinstance(delta, ToolCall)]


def end_of(deltas: list[Delta]) -> TurnEnd:
    assert isinstance(deltas[-1], TurnEnd)
    return deltas[-1]


def plain(call: ToolCall) -> tuple[str, Any]:
    return call.name, call.args
