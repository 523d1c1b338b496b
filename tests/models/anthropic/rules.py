"""Checks of the real API: a request that passes here passes there."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn, get_type_hints

from pydantic import TypeAdapter, ValidationError

Block = dict[str, Any]
THINKING = ("thinking", "redacted_thinking")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


class Refused(Exception):
    """An error message of the API: its place, and the problem."""


class Rules:
    """Checks requests; remembers the thinking that was handed out, because it must come back as it was."""

    def __init__(self) -> None:
        self.thinking: dict[str, list[Block]] = {}
        self.paused = False

    def handed_out(self, blocks: Sequence[Block], *, paused: bool) -> None:
        self.paused = paused
        thoughts = [block for block in blocks if block["type"] in THINKING]
        for block in blocks:
            if block["type"] == "tool_use" and thoughts:
                self.thinking[block["id"]] = thoughts

    def check(self, headers: Mapping[str, str], raw: bytes) -> dict[str, Any]:
        """The request, as far as the API would take it."""
        if not headers.get("authorization", "").startswith("Bearer "):
            raise Refused("authorization: header is required")
        if not headers.get("anthropic-version"):
            raise Refused("anthropic-version: header is required")
        if headers.get("content-type") != "application/json":
            raise Refused("content-type: must be application/json")
        request = parse(raw)
        self._shape(request)
        _tools(request.get("tools", []))
        self._messages(request["messages"])
        if sum(_breakpoints(request)) > 4:
            raise Refused("A maximum of 4 blocks with cache_control may be provided")
        return request

    def _shape(self, request: Any) -> None:
        from anthropic.types import (
            MessageParam,
            ToolParam,
        )  # takes seconds, in every process that collects tests
        from anthropic.types.message_create_params import MessageCreateParamsStreaming

        known = _hints(MessageCreateParamsStreaming)
        for key in request:
            if key not in known:
                raise Refused(f"{key}: Extra inputs are not permitted")
        try:
            checked = _adapter(MessageCreateParamsStreaming).validate_python(request)
            _exhaust(checked)
            for message in request["messages"]:
                _exhaust(_adapter(MessageParam).validate_python(message))
            for tool in request.get("tools", []):
                _exhaust(_adapter(ToolParam).validate_python(tool))
        except ValidationError as error:
            raise Refused(str(error)) from None
        if request["max_tokens"] < 1:
            raise Refused("max_tokens: must be greater than or equal to 1")
        for block in request.get("system", []):
            _not_blank(block, "system")

    def _messages(self, messages: Sequence[Block]) -> None:
        if not messages:
            raise Refused("messages: at least one message is required")
        if messages[0]["role"] != "user":
            raise Refused('messages: first message must use the "user" role')
        seen: set[str] = set()
        open_calls: list[str] = []
        for index, message in enumerate(messages):
            blocks = _blocks(message, f"messages.{index}")
            _results(blocks, open_calls, message["role"], index)
            open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
            for call_id in open_calls:
                if call_id in seen:
                    raise Refused("messages: `tool_use` ids must be unique")
                seen.add(call_id)
            if message["role"] == "assistant":
                self._thoughts(blocks, index)
        if open_calls and not self.paused:
            raise Refused(_without_result(len(messages) - 1, open_calls))
        if messages[-1]["role"] == "assistant" and not self.paused:
            raise Refused("This model does not support assistant message prefill")

    def _thoughts(self, blocks: Sequence[Block], index: int) -> None:
        if blocks[-1]["type"] in THINKING:
            raise Refused(
                f"messages.{index}: The final block in an assistant message cannot be `thinking`."
            )
        sent = [block for block in blocks if block["type"] in THINKING]
        for block in blocks:
            if block["type"] == "tool_use" and self.thinking.get(block["id"], sent) != sent:
                raise Refused(
                    f"messages.{index}: `thinking` or `redacted_thinking` blocks cannot be modified."
                )


def parse(raw: bytes) -> Any:
    """JSON as strict parsers read it: no NaN, no lone surrogates, no key twice."""
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_constant, object_pairs_hook=_once)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        raise Refused(f"The request body is not valid JSON: {error}") from None
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(name)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _exhaust(value: Any) -> None:
    """Iterables are validated while they are read."""
    if isinstance(value, Mapping):
        for item in value.values():
            _exhaust(item)
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for item in value:
            _exhaust(item)


def _blocks(message: Block, where: str) -> list[Block]:
    content = message["content"]
    blocks: list[Block] = (
        [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    )
    if not blocks:
        raise Refused(f"{where}: all messages must have non-empty content")
    for block in blocks:
        _not_blank(block, where)
        if block["type"] in ("image", "document"):
            _encoded(block["source"], where)
        if block["type"] == "tool_use" and not TOOL_NAME.fullmatch(block["name"]):
            raise Refused(f"{where}.tool_use.name: String should match pattern {TOOL_NAME.pattern}")
    return blocks


def _not_blank(block: Block, where: str) -> None:
    if block["type"] == "text" and not block["text"]:
        raise Refused(f"{where}: text content blocks must be non-empty")
    if block["type"] == "text" and not block["text"].strip():
        raise Refused(f"{where}: text content blocks must contain non-whitespace text")


def _encoded(source: Block, where: str) -> None:
    try:
        base64.b64decode(source["data"], validate=True)
    except binascii.Error:
        raise Refused(f"{where}: invalid base64 data") from None


def _results(blocks: Sequence[Block], open_calls: Sequence[str], role: str, index: int) -> None:
    """A message after calls begins with their results, each once; no other message has results."""
    ids = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    head = [block["tool_use_id"] for block in blocks[: len(ids)] if block["type"] == "tool_result"]
    if ids and role != "user":
        raise Refused(f"messages.{index}: `tool_result` blocks can only be in `user` messages")
    if set(open_calls) - set(ids):
        raise Refused(_without_result(index - 1, sorted(set(open_calls) - set(ids))))
    if set(ids) - set(open_calls):
        raise Refused(f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks")
    if len(ids) != len(set(ids)):
        raise Refused(f"messages.{index}: each tool_use must have a single result")
    if head != ids:
        raise Refused(
            f"messages.{index}: messages following `tool_use` blocks must begin with `tool_result` blocks"
        )
    for block in blocks:
        if block.get("is_error") and not block.get("content"):
            raise Refused(f"messages.{index}: content cannot be empty if `is_error` is true")


def _without_result(index: int, ids: Sequence[str]) -> str:
    return f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {ids}"


def _tools(tools: Sequence[Block]) -> None:
    names = [tool["name"] for tool in tools]
    if len(names) != len(set(names)):
        raise Refused("tools: Tool names must be unique.")
    for index, tool in enumerate(tools):
        if not TOOL_NAME.fullmatch(tool["name"]):
            raise Refused(f"tools.{index}.name: String should match pattern {TOOL_NAME.pattern}")
        if tool["input_schema"].get("type") != "object":
            raise Refused(f"tools.{index}.input_schema.type: Input should be 'object'")


def _breakpoints(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        yield 1 if value.get("cache_control") else 0
        for key, item in value.items():
            if key != "input_schema":
                yield from _breakpoints(item)
    elif isinstance(value, list):
        for item in value:
            yield from _breakpoints(item)
