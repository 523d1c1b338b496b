"""Tools by the API's own means: offered as functions, called by the model with ids, answered one by one."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import Attachment, CallResult, Message, ModelRequest, ToolSpec
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject
from forge_cli.models.json_body import json_within
from forge_cli.models.openai.answer import ChatAnswer

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class NativeDialect:
    shows_text = True

    images = False
    """Is the model shown the images of results?"""

    def system(self, request: ModelRequest) -> str:
        return request.system

    def offer(self, tools: Sequence[ToolSpec]) -> JsonObject:
        return {"tools": [_function(tool) for tool in tools]} if tools else {}

    def encode(self, message: Message) -> list[JsonObject]:
        match message.role:
            case "user":
                return [{"role": "user", "content": user_content(message)}]
            case "assistant" if message.calls:
                calls = [_call(call) for call in message.calls]
                return [{"role": "assistant", "content": message.text or None, "tool_calls": calls}]
            case "assistant":
                return [{"role": "assistant", "content": message.text}]
            case "tool":
                return [*map(_result, message.results), *(result_images(message) if self.images else ())]

    def read(self, answer: ChatAnswer, taken: set[str]) -> tuple[str, list[ToolCall]]:
        return answer.text, answer.calls(taken)


def user_content(message: Message) -> str | list[JsonObject]:
    """The message of the user: plain text, or text and files in parts."""
    if not message.attachments:
        return message.text
    said: list[JsonObject] = [{"type": "text", "text": message.text}] if message.text else []
    return said + [_part(file) for file in message.attachments]


def result_images(message: Message) -> list[JsonObject]:
    """The images that calls gave, as a message of the user: a result is text in this API."""
    parts: list[JsonObject] = []
    for result in message.results:
        for file in result.files:
            if file.media_type in _IMAGES and file.data and not result.is_error:
                parts.append({"type": "text", "text": f"[The image that {result.tool} gave, call {result.call_id}]"})
                parts.append(_image(file.media_type, file.data))
    return [{"role": "user", "content": parts}] if parts else []


def _image(media_type: str, data: bytes) -> JsonObject:
    url = f"data:{media_type};base64,{b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _part(file: Attachment) -> JsonObject:
    """Text as text, an image as an image, and of anything else only the news that it is there."""
    if file.media_type in _IMAGES:
        return _image(file.media_type, file.data)
    name = visible(file.name)
    text = _text_of(file)
    if text is None:
        what = f"{visible(file.media_type)}, {len(file.data)} bytes"
        return {"type": "text", "text": f"[The attached file {name} ({what}) cannot be shown to this model.]"}
    return {"type": "text", "text": f"[The attached file {name}]\n{text}"}


def _text_of(file: Attachment) -> str | None:
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
    """A call as the API accepts it, also where the model's own was nonsense; the result tells what that was."""
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", call.name)[:64] or "unknown"
    arguments = json_within(call.args)
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(result: CallResult) -> JsonObject:
    text = f"Error: {result.text}" if result.is_error else result.text
    return {"role": "tool", "tool_call_id": result.call_id, "content": text}
