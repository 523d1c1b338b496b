"""The handlers of MCP requests, for both generations of the protocol."""

from __future__ import annotations

import json
import secrets
import warnings
from collections import deque
from contextlib import suppress
from typing import Any

import anyio
import mcp_types
from mcp import MCPDeprecationWarning, MCPError
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from forge_cli import __version__
from forge_cli.apps.serve.calls import (
    ANSWER_TIMEOUT,
    CallForm,
    CallMessage,
    CallProgress,
    CallQuestion,
    ServedCall,
)
from forge_cli.apps.serve.content import file_block
from forge_cli.apps.serve.forms import form_of, settle
from forge_cli.apps.serve.logs import ClientLogs
from forge_cli.apps.serve.offered import OfferedExtras
from forge_cli.apps.serve.served import ServedWorker
from forge_cli.core.approval import Effect
from forge_cli.core.calls import ToolOutcome
from forge_cli.core.errors import ToolError
from forge_cli.core.phrases import COULD_NOT_ASK, NO_ONE_TO_ANSWER
from forge_cli.core.results import MODEL_LIMIT, Custom, Json, shown_files
from forge_cli.core.text import cut, visible
from forge_cli.core.wire import jsonable
from forge_cli.sandbox.secrets import Redactor
from forge_cli.schema.tool import Tool
from forge_cli.toolsets.mcp.transports import silence_sdk
from forge_cli.ui.views import FindRenderer

CHECK_INTERVAL = 2.0
"""Seconds between two checks for changed tools."""
MAX_CLIENTS = 100
CANCELLED = "the client cancelled it"


class McpRequests:
    """The handler of requests from all clients of one served worker."""

    def __init__(self, served: ServedWorker, find: FindRenderer) -> None:

        self._served = served
        self._find = find
        self._waiting: dict[str, ServedCall] = {}
        """Calls that wait for their client's answer, by the state that it sends back."""
        self._sessions: deque[ServerSession] = deque(maxlen=MAX_CLIENTS)
        """Clients of the older generation, which are notified of new tools one by one."""
        self._logs = ClientLogs()
        self._listeners = InMemorySubscriptionBus()

    def server(self) -> Server[Any]:
        """Return the SDK server that passes requests to these handlers."""

        class ToolServer(Server[Any]):
            def create_initialization_options(
                self, *args: Any, **options: Any
            ) -> InitializationOptions:
                # transports call this without options, which would announce no changes
                return super().create_initialization_options(
                    NotificationOptions(tools_changed=True)
                )

        silence_sdk()
        extras = OfferedExtras(self._served)
        with warnings.catch_warnings():
            # the newest protocol has no log messages, but clients still ask for them
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            server = ToolServer(
                "forge",
                version=__version__,
                title=f"forge: {self._served.worker.name}",
                instructions=self._served.instructions,
                get_tool_input_schema=self._schema,
                on_list_tools=self._list_tools,
                on_call_tool=self._call_tool,
                on_list_prompts=extras.list_prompts,
                on_get_prompt=extras.get_prompt,
                on_completion=extras.complete,
                on_list_resources=extras.list_resources,
                on_list_resource_templates=extras.list_templates,
                on_read_resource=extras.read_resource,
                on_set_logging_level=self._logs.set_level,
                on_subscriptions_listen=ListenHandler(
                    self._listeners, max_subscriptions=MAX_CLIENTS
                ),
            )
        server.add_notification_handler(
            "notifications/initialized", mcp_types.NotificationParams, self._greet
        )
        return server

    async def watch_tools(self) -> None:
        """Notify every client whenever the tools change; never returns."""
        before = self._offered()
        while True:
            await anyio.sleep(CHECK_INTERVAL)
            await self._served.refresh()
            if (now := self._offered()) == before:
                continue
            before = now
            await self._listeners.publish(ToolsListChanged())
            for session in list(self._sessions):
                # a client that has left, or does not read, must not hold up the others
                with anyio.move_on_after(1), suppress(Exception):
                    await session.send_tool_list_changed()

    async def _greet(
        self, context: ServerRequestContext[Any, Any], params: mcp_types.NotificationParams
    ) -> None:
        self._sessions.append(context.session)

    async def _list_tools(
        self,
        context: ServerRequestContext[Any, Any],
        params: mcp_types.PaginatedRequestParams | None,
    ) -> mcp_types.ListToolsResult:

        await self._served.refresh()
        return mcp_types.ListToolsResult(tools=self._offered())

    def _offered(self) -> list[mcp_types.Tool]:
        """Return the tools as clients see them, so that equal definitions compare equal."""
        return [offered_tool(tool) for tool in self._served.tools]

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        try:
            if params.request_state is not None:
                call = self._resumed(params)
            else:
                call = self._begun(context, params)
        except ToolError as error:
            return refusal(visible(str(error)))
        try:
            return await self._follow(call, context)
        except BaseException:  # usually a cancellation: the client no longer waits
            call.interrupt.interrupt(CANCELLED)
            raise

    def _begun(
        self, context: ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams
    ) -> ServedCall:
        asks = can_ask(context.session.client_capabilities)
        return self._served.call(params.name, params.arguments or {}, can_ask=asks)

    def _resumed(self, params: mcp_types.CallToolRequestParams) -> ServedCall:
        """Return the call that waits for the answers in this request."""
        call = self._waiting.pop(params.request_state or "", None)
        if call is None or (call.call.name, call.call.args) != (
            params.name,
            params.arguments or {},
        ):
            raise ToolError(
                f"{params.name} was not called: the answer is late, or belongs to another call"
            )
        for key, question in list(call.questions.items()):
            if question.heard:
                answer = (params.input_responses or {}).get(key)
                if not isinstance(answer, mcp_types.ElicitResult):
                    answer = None  # a missing answer, or one of another kind, is not a yes
                settle(question, answer)
        return call

    async def _follow(
        self, call: ServedCall, context: ServerRequestContext[Any, Any]
    ) -> mcp_types.CallToolResult | mcp_types.InputRequiredResult:
        """Pass news of a call to its client, until it is done or the client has to answer first."""
        step = 0
        while True:
            match await call.next():
                case ToolOutcome() as outcome:
                    return call_result(outcome, self._served.redactor)
                case CallMessage() as said:
                    text = self._served.redactor.redact_text(visible(said.text))
                    await self._logs.send(said, text, call.call.name, context)
                case CallProgress(message, fraction):
                    step += 1
                    text = self._served.redactor.redact_text(visible(cut(message, 300, "end")))
                    # progress has to increase, but a fraction may decrease: adjust the total
                    total = step / fraction if fraction else None
                    await context.session.report_progress(step, total, text)
                case CallQuestion() | CallForm() as question if context.session.can_send_request:
                    settle(question, await self._elicit(question, context))
                case CallQuestion() | CallForm() as question:
                    return self._input_required(call, question)

    async def _elicit(
        self, question: CallQuestion | CallForm, context: ServerRequestContext[Any, Any]
    ) -> mcp_types.ElicitResult | None:
        """Ask the user of an older client; a failure is not a yes."""
        form = form_of(question, self._served.redactor, self._find)
        answer = None
        with anyio.move_on_after(ANSWER_TIMEOUT), suppress(MCPError, ValueError):
            answer = await context.session.elicit_form(
                form.message, form.requested_schema, context.request_id
            )
        return answer

    def _input_required(
        self, call: ServedCall, question: CallQuestion | CallForm
    ) -> mcp_types.InputRequiredResult:
        """Tell a newer client to ask its user, and to repeat the request with the answer."""
        # random, so that no other client can answer for this one
        state = secrets.token_urlsafe(24)
        # calls that ended meanwhile are dropped, because their clients may never come back
        self._waiting = {key: other for key, other in self._waiting.items() if not other.done}
        self._waiting[state] = call
        form = form_of(question, self._served.redactor, self._find)
        key = next(key for key, each in call.questions.items() if each is question)
        return mcp_types.InputRequiredResult(
            input_requests={key: mcp_types.ElicitRequest(params=form)}, request_state=state
        )

    def _schema(self, name: str) -> dict[str, Any] | None:
        offer = self._served.offers.get(name)
        return dict(offer.tool.schema.json_schema) if offer else None


CANNOT_ASK = "this client cannot ask its user, because it does not support elicitation"


def offered_tool(tool: Tool) -> mcp_types.Tool:
    """Return a tool as a client sees it; undeclared effects are announced as the worst case."""
    if tool.effects is not None:
        effects = tool.effects
    else:
        effects = frozenset(Effect)
    changes = bool(effects & {Effect.WRITE, Effect.EXECUTE})
    hints = mcp_types.ToolAnnotations(
        read_only_hint=tool.read_only,
        destructive_hint=changes,
        open_world_hint=bool(effects & {Effect.NETWORK, Effect.EXECUTE}),
    )
    return mcp_types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema.json_schema,
        annotations=hints,
    )


def call_result(outcome: ToolOutcome, redactor: Redactor) -> mcp_types.CallToolResult:
    """Return the outcome of a call: the model's text, and the data if it is a small object."""
    text = redactor.redact_text(outcome.text())
    # forge's own sentences advise the user of a terminal; here the client is the reason
    if outcome.by == "headless":
        text = text.replace(COULD_NOT_ASK, CANNOT_ASK)
    if outcome.by == "tool":
        text = text.replace(f"{NO_ONE_TO_ANSWER} it", CANNOT_ASK)
    content: list[mcp_types.ContentBlock] = [mcp_types.TextContent(text=text)]
    for file in shown_files(outcome.value) if outcome.ok else ():
        if (block := file_block(file, outcome.call.id, redactor)) is not None:
            content.append(block)
    return mcp_types.CallToolResult(
        content=content,
        structured_content=redactor.redact(_data(outcome)),
        is_error=not outcome.ok,
    )


def refusal(sentence: str) -> mcp_types.CallToolResult:
    """Return the result of a call that was refused before it began."""
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=sentence)], is_error=True)


def _data(outcome: ToolOutcome) -> dict[str, Any] | None:
    value = outcome.value
    if isinstance(value, Json | Custom):
        data = jsonable(value.data)
    else:
        data = None
    if not isinstance(data, dict) or len(json.dumps(data, ensure_ascii=False)) > MODEL_LIMIT:
        return None
    return data


def can_ask(capabilities: mcp_types.ClientCapabilities | None) -> bool:
    """Return True if the client can show forms; a client that names no mode can."""
    elicitation = capabilities.elicitation if capabilities else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)
