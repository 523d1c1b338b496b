"""Results of MCP servers as forge's own, and answers to requests of servers."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from forge_cli.core.errors import ToolError
from forge_cli.core.media import Blob, Image
from forge_cli.core.messages import Message, StopReason
from forge_cli.core.pictures import file_size
from forge_cli.core.requests import SampleRequest, SessionRequests
from forge_cli.core.results import Json, ResultValue, Text, joined
from forge_cli.core.text import cut
from forge_cli.schema.json.bounded import unbounded_problem

if TYPE_CHECKING:
    import mcp_types

MAX_QUESTION = 500
"""Characters of a server's question to a person."""
_STOPS: dict[StopReason, str] = {"max_tokens": "maxTokens"}


class ServerRequests:
    """Answers requests of one server; a refusal is an error with its reason."""

    def __init__(self, server: str, session: SessionRequests) -> None:
        self._asker = f"the MCP server {server}"
        self._session = session

    async def sample(
        self, context: Any, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        from mcp_types import INVALID_REQUEST, CreateMessageResult, ErrorData, TextContent

        messages = tuple(Message(each.role, _text(each.content)) for each in params.messages)
        request = SampleRequest(
            asker=self._asker, messages=messages, system=params.system_prompt or ""
        )
        try:
            reply = await self._session.sample(request)
        except ToolError as error:
            return ErrorData(code=INVALID_REQUEST, message=str(error))
        content = TextContent(type="text", text=reply.text)
        stop = _STOPS.get(reply.stop, "endTurn")
        return CreateMessageResult(
            role="assistant", content=content, model=reply.model, stop_reason=stop
        )

    async def elicit(
        self, context: Any, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        from mcp_types import INVALID_PARAMS, ElicitResult, ErrorData

        if params.mode == "url":
            return ElicitResult(action="decline")
        if problem := unbounded_problem(dict(params.requested_schema)):
            return ErrorData(code=INVALID_PARAMS, message=problem)
        message = cut(" ".join(params.message.split()), MAX_QUESTION, "end")
        try:
            given = await self._session.ask_person(
                self._asker, message, dict(params.requested_schema)
            )
        except ToolError as error:
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        if given is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=given)


def _text(content: Any) -> str:
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(map(block_text, blocks))


def convert_result(result: mcp_types.CallToolResult) -> ResultValue:
    """Return the value of a call; raise ToolError if the server reports an error."""
    if result.is_error:
        text = "\n".join(filter(None, map(block_text, result.content)))
        raise ToolError(text or "the tool failed without a message")
    parts = [_block_value(block) for block in result.content]
    if result.structured_content is None:
        return as_one(parts)
    value = Json(result.structured_content)
    # In the protocol, text blocks repeat the structured content.
    more = joined(
        part for part, block in zip(parts, result.content, strict=True) if block.type != "text"
    )
    if not more.content:
        return value
    return replace(value, model_text=f"{value.text()}\n{more.content}", files=more.files)


def as_one(parts: Sequence[ResultValue]) -> ResultValue:
    """Combine several parts into one result."""
    if len(parts) == 1:
        return parts[0]
    return joined(part for part in parts if part != Text(""))


def _block_value(block: mcp_types.ContentBlock) -> ResultValue:
    """Return a part of a result: text, or a file if its data is valid."""
    with suppress(ValueError):  # invalid base64 becomes a description of the block
        match block.type:
            case "image":
                return Image(b64decode(block.data, validate=True), block.mime_type)
            case "audio":
                return Blob(b64decode(block.data, validate=True), block.mime_type)
            case "resource":
                return resource_value(block.resource)
    return Text(block_text(block))


def resource_value(
    resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents,
) -> ResultValue:
    """Return the text of a resource, or its data as a file."""
    data = getattr(resource, "blob", None)
    with suppress(ValueError):  # invalid base64 becomes a description of the resource
        if isinstance(data, str):
            content = b64decode(data, validate=True)
            media_type = resource.mime_type or "application/octet-stream"
            kind = Image if media_type.startswith("image/") else Blob
            return kind(content, media_type, str(resource.uri))
    return Text(resource_text(resource))


def prompt_text(messages: Iterable[mcp_types.PromptMessage]) -> str:
    """Return the messages of a prompt as one text; mark the messages of other roles."""
    texts = [(each.role, block_text(each.content)) for each in messages]
    return "\n\n".join(text if role == "user" else f"{role}: {text}" for role, text in texts)


def resource_text(resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents) -> str:
    """Return the text of a resource; for binary data, a description."""
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    return f"[resource: {resource.uri}, {resource.mime_type or 'binary'}]"


def block_text(block: mcp_types.ContentBlock) -> str:
    """Return the text of a content block; for other content, a description."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            # Four characters of base64 are three bytes.
            size = file_size(len(block.data.rstrip("=")) * 3 // 4)
            return f"[{block.type}: {block.mime_type}, {size}]"
        case "resource_link":
            return f"[resource: {block.uri}{f' ({block.name})' if block.name else ''}]"
        case "resource":
            return resource_text(block.resource)
    return f"[{block.type}]"
