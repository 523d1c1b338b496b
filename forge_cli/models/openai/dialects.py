"""Tools in requests and answers: in the API's own way, or as JSON that the model must write."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import Attachment, CallResult, Message, ModelRequest, ToolSpec
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject
from forge_cli.models.json_body import json_within
from forge_cli.models.openai.answer import ChatAnswer, new_call_id, read_object

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_FREE: JsonObject = {"type": "object", "additionalProperties": True}
_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_FENCE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_HOW = """# How to answer
Answer with one JSON object and nothing else. To call a tool:
{"tool": "NAME", "input": {...}}
Its result comes as the next message. When no tool is needed any more, give your final answer:
{"answer": "TEXT"}

# Tools"""

_THEN = (
    'If this is enough, give your final answer as {"answer": "TEXT"}; otherwise call the next tool.'
)
"""Repeated after each result, because small models repeat calls that they have a result of."""
_LOOK_FIRST = (
    "# Before you answer\n"
    "What files hold, what is in a folder and what a command prints "
    "you know only from a tool's result. Call a tool first."
)


class NativeDialect:
    """Tools as the API itself offers and calls them."""

    shows_text = True
    """True if text may be shown as it arrives."""
    images = False
    """True if images in results are sent to the model."""
    forces = False
    """True if the model can write nothing but a call or an answer."""

    def system(self, request: ModelRequest) -> str:
        return request.system

    def offer(self, tools: Sequence[ToolSpec]) -> JsonObject:
        """Return the fields of a request that offer the tools."""
        if tools:
            return {"tools": [_function(tool) for tool in tools]}
        return {}

    def encode(self, message: Message) -> list[JsonObject]:
        """Return an entry of the history as one or more messages of the API."""
        match message.role:
            case "user":
                return [{"role": "user", "content": user_content(message)}]
            case "assistant" if message.calls:
                calls = [_call(call) for call in message.calls]
                return [{"role": "assistant", "content": message.text or None, "tool_calls": calls}]
            case "assistant":
                return [{"role": "assistant", "content": message.text}]
            case "tool":
                images = result_images(message) if self.images else []
                return [*map(_result, message.results), *images]

    def read(self, answer: ChatAnswer, taken: set[str]) -> tuple[str, list[ToolCall]]:
        """Return the text and the calls of a finished answer, with IDs that are not ``taken``."""
        return answer.text, answer.calls(taken)


def user_content(message: Message) -> str | list[JsonObject]:
    """Return the content of a user's message: plain text, or parts with files."""
    if not message.attachments:
        return message.text
    said: list[JsonObject] = [{"type": "text", "text": message.text}] if message.text else []
    return said + [_part(file) for file in message.attachments]


def result_images(message: Message) -> list[JsonObject]:
    """Return the images of results as a user's message, because results are text in this API."""
    parts: list[JsonObject] = []
    for result in message.results:
        for file in result.files:
            if file.media_type in _IMAGES and file.data and not result.is_error:
                text = f"[The image that {result.tool} gave, call {result.call_id}]"
                parts.append({"type": "text", "text": text})
                parts.append(_image(file.media_type, file.data))
    return [{"role": "user", "content": parts}] if parts else []


def _image(media_type: str, data: bytes) -> JsonObject:
    url = f"data:{media_type};base64,{b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _part(file: Attachment) -> JsonObject:
    # a file that is neither image nor text is only mentioned
    if file.media_type in _IMAGES:
        return _image(file.media_type, file.data)
    name = visible(file.name)
    text = _text_of(file)
    if text is None:
        what = f"{visible(file.media_type)}, {len(file.data)} bytes"
        said = f"[The attached file {name} ({what}) cannot be shown to this model.]"
    else:
        said = f"[The attached file {name}]\n{text}"
    return {"type": "text", "text": said}


def is_shown(file: Attachment) -> bool:
    """Return True if the content of an attached file is sent to the model."""
    return file.media_type in _IMAGES or _text_of(file) is not None


def _text_of(file: Attachment) -> str | None:
    # Zero bytes are valid UTF-8, but only binary files contain them.
    if b"\0" in file.data or file.media_type == "application/pdf":
        return None
    try:
        return file.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _function(tool: ToolSpec) -> JsonObject:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def _call(call: ToolCall) -> JsonObject:
    # The API refuses odd names, also in the history; the result told the model what it wrote.
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", call.name)[:64] or "unknown"
    arguments = json_within(call.args)
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(result: CallResult) -> JsonObject:
    text = f"Error: {result.text}" if result.is_error else result.text
    return {"role": "tool", "tool_call_id": result.call_id, "content": text}


class ForcedDialect(NativeDialect):
    """Tools as JSON that the model is forced to write."""

    shows_text = False
    forces = True

    def system(self, request: ModelRequest) -> str:
        if not request.tools:
            return request.system
        parts = [request.system, _HOW]
        for tool in request.tools:
            schema = json_within(tool.input_schema)
            parts.append(f"## {tool.name}\n{tool.description}\nInput, as JSON Schema: {schema}")
        return "\n\n".join(part for part in [*parts, _LOOK_FIRST] if part)

    def offer(self, tools: Sequence[ToolSpec]) -> JsonObject:
        if not tools:
            return {}
        choices = [_shape({"answer": {"type": "string"}}), *map(_call_schema, tools)]
        wanted = {"name": "answer", "schema": {"anyOf": choices}}
        return {"response_format": {"type": "json_schema", "json_schema": wanted}}

    def encode(self, message: Message) -> list[JsonObject]:
        match message.role:
            case "user":
                return super().encode(message)
            case "assistant" if message.calls:
                calls = [
                    json_within({"tool": call.name, "input": call.args}) for call in message.calls
                ]
                return [{"role": "assistant", "content": "\n".join(calls)}]
            case "assistant":
                return [{"role": "assistant", "content": json_within({"answer": message.text})}]
            case "tool":
                told: list[str] = []
                for result in message.results:
                    verb = "failed" if result.is_error else "gave"
                    told.append(f"{result.tool} {verb}:\n{result.text}")
                images = result_images(message) if self.images else []
                return [{"role": "user", "content": "\n\n".join([*told, _THEN])}, *images]

    def read(self, answer: ChatAnswer, taken: set[str]) -> tuple[str, list[ToolCall]]:
        text = answer.text
        fenced = _FENCE.fullmatch(text)
        match read_object(fenced[1] if fenced else text):
            case {"answer": str(said), **rest} if not rest:
                return said, []
            case {"tool": str(name), **rest} if set(rest) <= {"input"} and answer.stop != "refusal":
                return "", [_forced_call(name, rest.get("input", {}))]
            case _:
                return text, []


def _forced_call(name: str, given: Any) -> ToolCall:
    if isinstance(given, dict):
        return ToolCall(new_call_id(), name, given)
    return ToolCall(new_call_id(), name, {}, unreadable=json_within(given))


def _call_schema(tool: ToolSpec) -> JsonObject:
    return _shape({"tool": {"const": tool.name}, "input": _simple(tool.input_schema) or _FREE})


def _shape(properties: JsonObject, required: Sequence[str] | None = None) -> JsonObject:
    needed = list(properties) if required is None else list(required)
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }


def _simple(schema: Any) -> JsonObject | None:
    """Return the schema in keywords that every grammar builder knows; None if it needs others.

    It may allow more than the tool does: the gate checks the input against the tool's own schema.
    """
    match schema:
        case {"enum": list(values)} if values:
            return {"enum": values}
        case {"const": value}:
            return {"enum": [value]}
        case {"anyOf": [*choices]}:
            simple = [_simple(choice) for choice in choices]
            if simple and None not in simple:
                return {"anyOf": simple}
            return None
        case {"type": "object", "properties": {**properties}} if properties:
            found = {str(name): _simple(value) for name, value in properties.items()}
            required = [name for name in schema.get("required", []) if name in found]
            if None not in found.values():
                return _shape(found, required)
            return None
        case {"type": "object"}:
            return _FREE
        case {"type": "array", "items": items}:
            simple_items = _simple(items)
            if simple_items:
                return {"type": "array", "items": simple_items}
            return None
        case {"type": str(kind)} if kind in _SCALARS:
            return {"type": kind}
        case _:
            return None
