"""Tools, questions and results of forge in the types of the Model Context Protocol."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest, Effect
from forge_cli.core.calls import ToolOutcome
from forge_cli.core.media import Image, decoded_text
from forge_cli.core.phrases import COULD_NOT_ASK
from forge_cli.core.results import MODEL_LIMIT, Custom, Json, shown_files
from forge_cli.core.text import cut
from forge_cli.core.wire import jsonable
from forge_cli.sandbox.secrets import Redactor
from forge_cli.schema.tool import Tool
from forge_cli.ui.terminal.prompts import describe_in_text
from forge_cli.ui.views import FindRenderer

if TYPE_CHECKING:
    import mcp_types

APPROVE = "approve"
FORM = {
    "type": "object",
    "properties": {
        APPROVE: {
            "type": "boolean",
            "title": "Approve this call",
            "description": "Yes lets it run, this once.",
            "default": False,
        }
    },
    "required": [APPROVE],
}
QUESTION_MAX = 20_000
"""Characters of a question; one that is longer says what was left out of it."""
CANNOT_ASK = "this client cannot ask its user, for it does not support elicitation"


def offered_tool(tool: Tool) -> mcp_types.Tool:
    """A tool as a client sees it; the hints come from what the tool declares, and what is not declared is the worst."""
    from mcp_types import Tool as McpTool
    from mcp_types import ToolAnnotations

    effects = tool.effects if tool.effects is not None else frozenset(Effect)
    changes = bool(effects & {Effect.WRITE, Effect.EXECUTE})
    hints = ToolAnnotations(
        read_only_hint=tool.read_only,
        destructive_hint=changes,
        open_world_hint=bool(effects & {Effect.NETWORK, Effect.EXECUTE}),
    )
    return McpTool(
        name=tool.name, description=tool.description, input_schema=tool.schema.json_schema, annotations=hints
    )


def call_result(outcome: ToolOutcome, redactor: Redactor) -> mcp_types.CallToolResult:
    """The outcome of a call: the text that a model reads, and the data where it is an object of a reasonable size."""
    from mcp_types import (
        BlobResourceContents,
        CallToolResult,
        ContentBlock,
        EmbeddedResource,
        ImageContent,
        TextContent,
    )

    text = redactor.redact_text(outcome.text())
    if outcome.by == "headless":
        text = text.replace(COULD_NOT_ASK, CANNOT_ASK)
    content: list[ContentBlock] = [TextContent(text=text)]
    for file in shown_files(outcome.value) if outcome.ok else ():
        data = b64encode(file.data).decode()
        if isinstance(file, Image):
            content.append(ImageContent(data=data, mime_type=file.media_type))
        elif decoded_text(file) is None:
            uri = f"forge:///{quote(file.name or outcome.call.id)}"
            content.append(
                EmbeddedResource(resource=BlobResourceContents(uri=uri, mime_type=file.media_type, blob=data))
            )
    return CallToolResult(
        content=content,
        structured_content=redactor.redact(_data(outcome)),
        is_error=not outcome.ok,
    )


def refusal(sentence: str) -> mcp_types.CallToolResult:
    """A call that was not even begun."""
    from mcp_types import CallToolResult, TextContent

    return CallToolResult(content=[TextContent(text=sentence)], is_error=True)


def _data(outcome: ToolOutcome) -> dict[str, Any] | None:
    value = outcome.value
    data = jsonable(value.data) if isinstance(value, Json | Custom) else None
    if not isinstance(data, dict) or len(json.dumps(data, ensure_ascii=False)) > MODEL_LIMIT:
        return None
    return data


def question_form(
    request: ApprovalRequest, redactor: Redactor, find: FindRenderer
) -> mcp_types.ElicitRequestFormParams:
    """A form with the call, its effect and the reason why it asks, and one box to tick."""
    from mcp_types import ElicitRequestFormParams

    text = redactor.redact_text(describe_in_text(request, find))
    return ElicitRequestFormParams(message=cut(text, QUESTION_MAX), requested_schema=FORM)


def decision_of(answer: mcp_types.ElicitResult | None) -> ApprovalDecision:
    """The answer of a client's user; all but a clear yes is a no."""
    if answer is None or answer.action == "cancel":
        return ApprovalDecision(False, note="the question was dismissed")
    approved = answer.action == "accept" and (answer.content or {}).get(APPROVE) is True
    return ApprovalDecision(approved)


def can_ask(capabilities: mcp_types.ClientCapabilities | None) -> bool:
    """Can the client show a form to its user? One that names no mode can."""
    elicitation = capabilities.elicitation if capabilities else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)
