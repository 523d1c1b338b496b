"""Results of MCP tools as forge's own: text, JSON, and what else came, named."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from forge_cli.core.errors import ToolError
from forge_cli.core.media import Blob, Image
from forge_cli.core.pictures import file_size
from forge_cli.core.results import Json, ResultValue, Text

if TYPE_CHECKING:
    import mcp_types


def convert_result(result: mcp_types.CallToolResult) -> ResultValue:
    """The value of a call; one that the server calls an error is a ToolError."""
    text = "\n".join(filter(None, map(block_text, result.content)))
    if result.is_error:
        raise ToolError(text or "the tool failed, and said nothing")
    if result.structured_content is not None:
        more = [block_text(block) for block in result.content if block.type != "text"]
        value = Json(result.structured_content)
        return Json(value.data, model_text="\n".join([value.text(), *more])) if more else value
    return _with_image(result.content) or Text(text)


def _with_image(content: Sequence[mcp_types.ContentBlock]) -> ResultValue | None:
    """The first image, or a file that came alone, with what else was said; None where neither can be read."""
    try:
        for at, block in enumerate(content):
            if block.type == "image":
                said = [block_text(other) for index, other in enumerate(content) if index != at]
                return Image(b64decode(block.data, validate=True), block.mime_type, "\n".join(filter(None, said)))
        if len(content) == 1 and content[0].type == "resource":
            return resource_file(content[0].resource)
    except ValueError:  # the server's data is not what it says
        pass
    return None


def resource_file(
    resource: mcp_types.TextResourceContents | mcp_types.BlobResourceContents,
) -> Image | Blob | None:
    """A resource that is not text as a file; None for text."""
    data = getattr(resource, "blob", None)
    if not isinstance(data, str):
        return None
    name, media_type = str(resource.uri), resource.mime_type or "application/octet-stream"
    content = b64decode(data, validate=True)
    return Image(content, media_type, name) if media_type.startswith("image/") else Blob(content, media_type, name)


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
