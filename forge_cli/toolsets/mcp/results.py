"""Results of MCP servers as forge's own, and requests of theirs to the model or the person."""

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

ASKED = 500
"""Characters of what a server says to a person."""
_STOPS: dict[StopReason, str] = {"max_tokens": "maxTokens"}


class ServerRequests:
    """Answers the requests of one server; what is refused is an error that says why."""

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
        message = cut(" ".join(params.message.split()), ASKED, "end")
        try:
            given = await self._session.ask_person(
                self._asker, message, dict(params.requested_schema)
            )
        except ToolError as error:
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        return (
            ElicitResult(action="decline")
            if given is None
            else ElicitResult(action="accept", content=given)
        )


def _text(content: Any) -> str:
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(map(block_text, blocks))


def convert_result(result: mcp_types.CallToolResult) -> ResultValue:
    """The value of a call; one that the server calls an error is a ToolError."""
    if result.is_error:
        text = "\n".join(filter(None, map(block_text, result.content)))
        raise ToolError(text or "the tool failed, and said nothing")
    parts = [_block_value(block) for block in result.content]
    if result.structured_content is None:
        return as_one(parts)
    value = Json(result.structured_content)
    more = joined(
        part for part, block in zip(parts, result.content, strict=True) if block.type != "text"
    )
    return (
        replace(value, model_text=f"{value.text()}\n{more.content}", files=more.files)
        if more.content
        else value
    )


def as_one(parts: Sequence[ResultValue]) -> ResultValue:
    """Several parts as one result."""
    return parts[0] if len(parts) == 1 else joined(part for part in parts if part != Text(""))


def _block_value(block: mcp_types.ContentBlock) -> ResultValue:
    """A part of a result: a text, or a file where its data can be read."""
    with suppress(ValueError):  # the server's data is not what it says
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
    """The text of a resource, or the file that it is."""
    data = getattr(resource, "blob", None)
    with suppress(ValueError):  # the server's data is not what it says
        if isinstance(data, str):
            content, media_type = (
                b64decode(data, validate=True),
                resource.mime_type or "application/octet-stream",
            )
            kind = Image if media_type.startswith("image/") else Blob
            return kind(content, media_type, str(resource.uri))
    return Text(resource_text(resource))


def prompt_text(messages: Iterable[mcp_types.PromptMessage]) -> str:
    """The messages of a prompt as one of the person's; what is not theirs is marked."""
    texts = [(each.role, block_text(each.content)) for each in messages]
    return "\n\n".join(text if role == "user" else f"{role}: {text}" for role, text in texts)


def resource_text(resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents) -> str:
    """The text of a resource; of binary data, what it is."""
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    return f"[resource: {resource.uri}, {resource.mime_type or 'binary'}]"


def block_text(block: mcp_types.ContentBlock) -> str:
    """The text of a part of a result or a message; of anything else, what it is."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}: {block.mime_type}, {file_size(len(block.data.rstrip('=')) * 3 // 4)}]"
        case "resource_link":
            return f"[resource: {block.uri}{f' ({block.name})' if block.name else ''}]"
        case "resource":
            return resource_text(block.resource)
    return f"[{block.type}]"
