"""Requests of MCP servers to a session, where the worker allows it: sampling, and forms for the person to fill in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge_cli.core.errors import ToolError
from forge_cli.core.messages import Message, StopReason
from forge_cli.core.requests import SampleRequest, SessionRequests
from forge_cli.core.text import cut
from forge_cli.toolsets.mcp.results import block_text

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
        request = SampleRequest(asker=self._asker, messages=messages, system=params.system_prompt or "")
        try:
            reply = await self._session.sample(request)
        except ToolError as error:
            return ErrorData(code=INVALID_REQUEST, message=str(error))
        content = TextContent(type="text", text=reply.text)
        stop = _STOPS.get(reply.stop, "endTurn")
        return CreateMessageResult(role="assistant", content=content, model=reply.model, stop_reason=stop)

    async def elicit(
        self, context: Any, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        from mcp_types import INVALID_PARAMS, ElicitResult, ErrorData

        if params.mode == "url":
            return ElicitResult(action="decline")
        message = cut(" ".join(params.message.split()), ASKED, "end")
        try:
            given = await self._session.ask_person(self._asker, message, dict(params.requested_schema))
        except ToolError as error:
            return ErrorData(code=INVALID_PARAMS, message=str(error))
        return ElicitResult(action="decline") if given is None else ElicitResult(action="accept", content=given)


def _text(content: Any) -> str:
    blocks = content if isinstance(content, list) else [content]
    return "\n".join(map(block_text, blocks))
