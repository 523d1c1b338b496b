"""One answer of the API, assembled from the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

from forge_cli.core.calls import ToolCall, is_legal_id, read_args
from forge_cli.core.messages import Usage
from forge_cli.core.text import mend
from forge_cli.core.wire import JsonObject
from forge_cli.models.anthropic.encode import Block

CUT_OFF = ("max_tokens", "model_context_window_exceeded")
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


class Garbled(Exception):
    """Raised for something that is not an event of this API."""


def are_useful(events: Sequence[Any]) -> bool:
    """Return True if one of these events is more than a keep-alive."""
    return not all(isinstance(event, dict) and event.get("type") == "ping" for event in events)


def is_last(event: Any) -> bool:
    """Return True if the answer is complete with this event."""
    return isinstance(event, dict) and event.get("type") == "message_stop"


@dataclass
class MessageAnswer:
    """One answer so far; it counts only once it is ``whole``."""

    taken: Sequence[Set[str]] = ()
    """IDs of earlier calls; duplicate and illegal IDs are replaced, as the API refuses them."""
    blocks: list[Block] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    stop: str | None = None
    details: JsonObject = field(default_factory=dict)
    whole: bool = False
    _open: dict[int, list[str]] = field(default_factory=dict)
    _counts: JsonObject = field(default_factory=dict)

    def take(self, events: Sequence[Any]) -> tuple[str, Garbled | None]:
        """Read events up to the first invalid one; return their text, and the problem if any."""
        said: list[str] = []
        for event in events:
            try:
                said.append(self._take(event))
            except (LookupError, TypeError, AttributeError):
                return "".join(said), Garbled(f"an invalid event: {str(event)[:100]}")
        return "".join(said), None

    def _take(self, event: Any) -> str:
        match event["type"]:
            case "content_block_delta":
                return self._add(event["index"], event["delta"])
            case "content_block_start":
                self._open[len(self.blocks)] = []
                self.blocks.append(block := event["content_block"])
                return str(block["text"]) if block["type"] == "text" else ""
            case "content_block_stop":
                self._close(event["index"])
            case "message_start":
                self._count(event["message"]["usage"])
            case "message_delta":
                self.stop = event["delta"]["stop_reason"] or self.stop
                self.details = event["delta"].get("stop_details") or self.details
                self._count(event["usage"])
            case "message_stop":
                self._finish()
        return ""

    def _add(self, index: int, delta: JsonObject) -> str:
        kind = delta["type"]
        if kind == "signature_delta":
            self.blocks[index]["signature"] = delta["signature"]
        elif kind in _PIECES:
            self._open[index].append(delta[_PIECES[kind]])
        return str(delta["text"]) if kind == "text_delta" else ""

    def _close(self, index: int) -> None:
        block = self.blocks[index]
        said = mend("".join(self._open.pop(index)))
        match block["type"]:
            case "text" | "thinking" as kind:
                block[kind] += said
            case "tool_use":
                self.calls.append(self._call(block, said))
            case "server_tool_use" if said:
                block["input"] = json.loads(said)

    def _call(self, block: Block, text: str) -> ToolCall:
        """Return the call of a complete block, whose input is also kept for later requests."""
        try:
            value = read_args(text or json.dumps(block.get("input") or {}))
        except (ValueError, RecursionError):
            value = None
        block["input"] = value if isinstance(value, dict) else {}
        taken = (*self.taken, {call.id for call in self.calls})
        own = isinstance(block["id"], str) and is_legal_id(block["id"])
        if not own or any(block["id"] in ids for ids in taken):
            block["id"] = f"toolu_{token_hex(12)}"
        unreadable = None if isinstance(value, dict) else text
        return ToolCall(block["id"], block["name"], block["input"], unreadable)

    def _count(self, usage: JsonObject) -> None:
        # the counts are totals so far: a later one replaces an earlier one
        self._counts.update({key: value for key, value in usage.items() if isinstance(value, int)})

    def _finish(self) -> None:
        # If the answer ran out of tokens, its last block is incomplete: a call in it is dropped.
        for index in sorted(self._open):
            self._close(index)
        if self.stop in CUT_OFF and self.blocks and self.blocks[-1]["type"] == "tool_use":
            self.blocks.pop()
            self.calls.pop()
        self.whole = True

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.blocks if block["type"] == "text")

    @property
    def usage(self) -> Usage:
        counts = self._counts
        return Usage(
            counts.get("input_tokens", 0),
            counts.get("output_tokens", 0),
            counts.get("cache_read_input_tokens", 0),
            counts.get("cache_creation_input_tokens", 0),
        )
