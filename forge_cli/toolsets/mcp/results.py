"""Results of MCP tools as forge's own: text, JSON, and what else came, named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.core.errors import ToolError
from forge_cli.core.results import Json, ResultValue, Text

if TYPE_CHECKING:
    import mcp_types


def result_of(result: mcp_types.CallToolResult) -> ResultValue:
    """The value of a call; one that the server calls an error is a ToolError."""
    text = "\n".join(filter(None, map(_text, result.content)))
    if result.is_error:
        raise ToolError(text or "the tool failed, and said nothing")
    if result.structured_content is not None:
        return Json(result.structured_content)
    return Text(text)


def _text(block: mcp_types.ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type}: {block.mime_type}, {len(block.data) * 3 // 4} bytes]"
        case "resource_link":
            return f"[resource: {block.uri}{f' ({block.name})' if block.name else ''}]"
        case "resource":
            held = block.resource
            return getattr(held, "text", None) or f"[resource: {held.uri}, {held.mime_type or 'binary'}]"
    return f"[{block.type}]"
