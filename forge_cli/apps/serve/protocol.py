"""The requests of MCP clients, in both generations of the protocol: what each of them does with a served worker."""

from __future__ import annotations

import secrets
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from forge_cli import __version__
from forge_cli.apps.serve.calls import PATIENCE, CallProgress, CallQuestion, ServedCall
from forge_cli.apps.serve.convert import call_result, can_ask, decision_of, offered_tool, question_form, refusal
from forge_cli.apps.serve.served import ServedWorker
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.calls import ToolOutcome
from forge_cli.core.errors import ToolError
from forge_cli.core.text import cut, visible
from forge_cli.toolsets.mcp.transports import silence_sdk
from forge_cli.ui.views import FindRenderer

if TYPE_CHECKING:
    import mcp_types
    from mcp.server import Server, ServerRequestContext
    from mcp.server.session import ServerSession

LOOK = 2.0
"""Seconds between two looks at whether the tools are others by now."""
MOST_CLIENTS = 100
CANCELLED = "the client cancelled it"


class McpRequests:
    """Answers the requests of every client of one served worker."""

    def __init__(self, served: ServedWorker, find: FindRenderer) -> None:
        from mcp.server.subscriptions import InMemorySubscriptionBus

        self._served, self._find = served, find
        self._waiting: dict[str, ServedCall] = {}
        """Calls whose clients have been given a question to answer, by the state that they send back with it."""
        self._sessions: deque[ServerSession] = deque(maxlen=MOST_CLIENTS)
        """The clients of the older generation, which are told of new tools one by one."""
        self._listeners = InMemorySubscriptionBus()

    def server(self) -> Server[Any]:
        """The server of the SDK that hands these requests over."""
        from mcp.server import NotificationOptions, Server
        from mcp.server.models import InitializationOptions
        from mcp.server.subscriptions import ListenHandler
        from mcp_types import NotificationParams

        class ToolServer(Server[Any]):
            def create_initialization_options(self, *args: Any, **options: Any) -> InitializationOptions:
                return super().create_initialization_options(NotificationOptions(tools_changed=True))

        silence_sdk()
        server = ToolServer(
            "forge",
            version=__version__,
            title=f"forge: {self._served.worker.name}",
            instructions=self._served.instructions,
            get_tool_input_schema=self._schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self._listeners, max_subscriptions=MOST_CLIENTS),
        )
        server.add_notification_handler("notifications/initialized", NotificationParams, self._greet)
        return server

    async def watch_tools(self) -> None:
        """Tell every client when the tools are others than before; it never ends by itself."""
        from mcp.server.subscriptions import ToolsListChanged

        before = self._offered()
        while True:
            await anyio.sleep(LOOK)
            await self._served.refresh()
            if (now := self._offered()) == before:
                continue
            before = now
            await self._listeners.publish(ToolsListChanged())
            for session in list(self._sessions):
                with anyio.move_on_after(1), suppress(Exception):  # a client that has left
                    await session.send_tool_list_changed()

    async def _greet(self, context: ServerRequestContext[Any, Any], params: mcp_types.NotificationParams) -> None:
        self._sessions.append(context.session)

    async def _list_tools(
        self, context: ServerRequestContext[Any, Any], params: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        from mcp_types import ListToolsResult

        await self._served.refresh()
        return ListToolsResult(tools=self._offered())

    def _offered(self) -> list[mcp_types.Tool]:
        """The tools as clients see them: a toolset may make others that look the same."""
        return [offered_tool(tool) for tool in self._served.tools]

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        try:
            call = self._resumed(params) if params.request_state is not None else self._begun(context, params)
        except ToolError as error:
            return refusal(visible(str(error)))
        try:
            return await self._follow(call, context)
        except BaseException:  # cancelled, mostly: the client no longer waits for it
            call.interrupt.interrupt(CANCELLED)
            raise

    def _begun(self, context: ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams) -> ServedCall:
        asks = can_ask(context.session.client_capabilities)
        return self._served.call(params.name, params.arguments or {}, can_ask=asks)

    def _resumed(self, params: mcp_types.CallToolRequestParams) -> ServedCall:
        """The call that waits for the answers that come with this request."""
        from mcp_types import ElicitResult

        call = self._waiting.pop(params.request_state or "", None)
        if call is None or (call.call.name, call.call.args) != (params.name, params.arguments or {}):
            raise ToolError(f"{params.name} was not called: the answer came too late, or belongs to another call")
        for key, question in list(call.questions.items()):
            if question.heard:
                answer = (params.input_responses or {}).get(key)
                question.answer(decision_of(answer if isinstance(answer, ElicitResult) else None))
        return call

    async def _follow(
        self, call: ServedCall, context: ServerRequestContext[Any, Any]
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        """Hand on what happens to a call until it is done, or until the newer generation has to answer first."""
        step = 0
        while True:
            match await call.next():
                case ToolOutcome() as outcome:
                    return call_result(outcome, self._served.redactor)
                case CallProgress(message, fraction):
                    step += 1
                    text = self._served.redactor.redact_text(visible(cut(message, 300, "end")))
                    # it has to increase, and the fraction may not: so the total is what is adjusted
                    await context.session.report_progress(step, step / fraction if fraction else None, text)
                case CallQuestion() as question if context.session.can_send_request:
                    question.answer(await self._elicit(question, context))
                case CallQuestion() as question:
                    return self._input_required(call, question)

    async def _elicit(self, question: CallQuestion, context: ServerRequestContext[Any, Any]) -> ApprovalDecision:
        """Ask the user of a client of the older generation; one that fails has not said yes."""
        from mcp import MCPError

        form = question_form(question.request, self._served.redactor, self._find)
        answer = None
        with anyio.move_on_after(PATIENCE), suppress(MCPError, ValueError):
            answer = await context.session.elicit_form(form.message, form.requested_schema, context.request_id)
        return decision_of(answer)

    def _input_required(self, call: ServedCall, question: CallQuestion) -> mcp_types.InputRequiredResult:
        """Have the client ask, and send the same request once more with the answer."""
        from mcp_types import ElicitRequest, InputRequiredResult

        state = secrets.token_urlsafe(24)
        self._waiting = {key: other for key, other in self._waiting.items() if not other.done}
        self._waiting[state] = call
        form = question_form(question.request, self._served.redactor, self._find)
        return InputRequiredResult(
            input_requests={question.request.request_id: ElicitRequest(params=form)}, request_state=state
        )

    def _schema(self, name: str) -> dict[str, Any] | None:
        offer = self._served.offers.get(name)
        return dict(offer.tool.schema.json_schema) if offer else None
