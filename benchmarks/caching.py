"""Prompt caching: how much of the input a growing conversation has to send anew, counted as the API counts it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from table import Row, main

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import CallResult, Message, ModelRequest, ToolSpec
from forge_cli.models.anthropic.encode import Encoder

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/models/anthropic"))
from cache import PromptCache, share_read

TURNS, SETTLED = 30, 5
LIMIT = 0.05
"""How much of the input may be new in each turn once the conversation has settled."""
SYSTEM = "You read files and say what is in them. " * 300
TOOLS = [ToolSpec(f"tool_{n}", "What it does, in a sentence or two.", {"type": "object"}) for n in range(12)]


def turn(number: int) -> list[Message]:
    call = ToolCall(f"toolu_{number}", "tool_1", {"path": f"notes/{number}.txt"})
    result = CallResult(call.id, call.name, "A line of a file that was read.\n" * 10)
    return [Message("assistant", "I look at the next one.", (call,)), Message("tool", results=(result,))]


def measure(rounds: int) -> list[Row]:
    cache, encoder, history = PromptCache(), Encoder("claude-haiku-5-5", 8192), [Message("user", "Read them all.")]
    for number in range(TURNS):
        cache.count(json.loads(encoder.body(ModelRequest(SYSTEM, history, TOOLS))))
        history += turn(number)
    fresh = max(1 - share_read(usage) for usage in cache.usages[SETTLED:])
    return [Row(f"input tokens not read from the cache, after turn {SETTLED}", fresh, LIMIT, f"{TURNS} turns")]


if __name__ == "__main__":
    main(measure, rounds=1)
