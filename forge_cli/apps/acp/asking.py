"""Questions to the person at an editor; only a clear yes is a yes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import anyio
from acp import schema
from anyio.abc import TaskGroup

from forge_cli.apps.acp.channel import EditorClient
from forge_cli.core.approval import THIS_CALL, ApprovalDecision, ApprovalRequest
from forge_cli.core.bus import EventBus
from forge_cli.core.events import ApprovalDecided, ApprovalRequired, Event, InputPrompt, ToolResult
from forge_cli.core.text import visible
from forge_cli.core.wire import error_text
from forge_cli.record.places import SessionLost
from forge_cli.ui.terminal.calls import CallKey, call_key
from forge_cli.ui.terminal.grants import all_offers

ANSWER_TIMEOUT = 3600.0
"""Seconds to answer a question, after which the answer is no."""
CANCEL_TIMEOUT = 5.0
"""Seconds that a cancelled turn has to end its calls."""
UNANSWERED = "no answer came in time"
LEFT = "the editor has left"


class EditorQuestions:
    """The questions of one session; ``cancel`` ends its turn."""

    def __init__(
        self, client: EditorClient, bus: EventBus, tasks: TaskGroup, cancel: Callable[[str], object]
    ) -> None:
        self.session = ""
        self.shown: dict[str, tuple[schema.ToolCallUpdate, ApprovalRequest]] = {}
        """The displayed call and the redacted request, by the id of the request."""
        self._client = client
        self._bus = bus
        self._tasks = tasks
        self._cancel = cancel
        self._open: dict[str, tuple[CallKey, anyio.CancelScope]] = {}

    def hear(self, event: Event) -> None:
        """Ask a question, or withdraw one that was settled elsewhere."""
        match event:
            case ApprovalRequired(request=request):
                self._tasks.start_soon(self._ask, request, call_key(event, request.tool_call_id))
            case ApprovalDecided(request_id=str() as request_id) if request_id in self._open:
                self._open[request_id][1].cancel()
            case ToolResult(tool_call_id=call):
                for key, scope in self._open.values():
                    if key == call_key(event, call):
                        scope.cancel()
            case InputPrompt(request_id=request_id, prompt=prompt):
                self._tasks.start_soon(self._ask_line, request_id, prompt)
            case _:
                pass

    async def _ask(self, request: ApprovalRequest, key: CallKey) -> None:
        decision = ApprovalDecision(False, note=UNANSWERED)
        scope = anyio.CancelScope()
        self._open[request.request_id] = key, scope
        try:
            with scope, anyio.move_on_after(ANSWER_TIMEOUT):
                try:
                    decision = await self._decide(request)
                except ConnectionError:
                    decision = await self._end_turn(LEFT)
        except Exception as error:  # third-party code: an editor that fails has not said yes
            decision = ApprovalDecision(
                False, note=f"the editor could not ask: {visible(error_text(error))}"
            )
        finally:
            del self._open[request.request_id]
            self.shown.pop(request.request_id, None)
            if self._bus.is_open(request.request_id):
                with suppress(SessionLost):
                    self._bus.answer(request.request_id, decision)

    async def _decide(self, request: ApprovalRequest) -> ApprovalDecision:
        call, redacted = self.shown[request.request_id]
        offers = all_offers(request)
        allow = "Allow once"
        reject = "Reject"
        if request.kept:
            allow = f"Allow, and remember it in {visible(request.kept)}"
            reject = "Reject, and remember it"
        options = [_option("once", allow, "allow_once")]
        # the buttons show the redacted offers; an answer grants the real one of the same number
        for place, offer in enumerate(all_offers(redacted)):
            name = f"Allow for this session: {visible(offer.text)}"
            options.append(_option(f"session:{place}", name, "allow_always"))
        options.append(_option("no", reject, "reject_once"))
        if self._client.can_fill_forms:
            options.append(_option("tell", "Reject, with a reason", "reject_once"))
        asked = schema.RequestPermissionRequest(
            session_id=self.session, tool_call=call, options=options
        )
        answer = await self._client.ask("session/request_permission", asked)
        outcome = schema.RequestPermissionResponse.model_validate(answer).outcome
        if isinstance(outcome, schema.DeniedOutcome):
            return await self._end_turn("cancelled in the editor")
        match outcome.option_id.partition(":"):
            case ("once", "", _):
                return ApprovalDecision(True)
            case ("session", _, number) if number.isdecimal() and int(number) < len(offers):
                offer = offers[int(number)]
                grant = None if offer == THIS_CALL else offer
                return ApprovalDecision(True, remember="session", grant=grant)
            case ("tell", "", _):
                why = await self._fill("What should it do instead?", "why", call.tool_call_id)
                return ApprovalDecision(False, note=" ".join(why.split()) or None)
            case _:
                return ApprovalDecision(False)

    async def _end_turn(self, reason: str) -> ApprovalDecision:
        """Interrupt the call that asks, so that it can be resumed; if that fails, deny it."""
        self._cancel(reason)
        # the end of the turn withdraws the question, which ends this wait
        await anyio.sleep(CANCEL_TIMEOUT)
        return ApprovalDecision(False, note=reason)

    async def _ask_line(self, request_id: str, prompt: str) -> None:
        """Answer a request for a line of text; empty if the editor cannot ask for one."""
        line = ""
        if self._client.can_fill_forms:
            with suppress(Exception), anyio.move_on_after(ANSWER_TIMEOUT):  # third-party code
                line = await self._fill(prompt, "answer")
        if self._bus.is_open(request_id):
            with suppress(SessionLost):
                self._bus.answer_input(request_id, line)

    async def _fill(self, message: str, name: str, call: str | None = None) -> str:
        """Return the line that the user types, or an empty text if they decline."""
        form = schema.ElicitationSchema(
            properties={name: schema.ElicitationStringPropertySchema(type="string", title=message)},
            required=[name],
        )
        params = schema.CreateFormSessionElicitationRequest(
            session_id=self.session,
            tool_call_id=call,
            message=message,
            mode="form",
            requested_schema=form,
        )
        match await self._client.ask("elicitation/create", params):
            case {"action": "accept", "content": {**content}} if isinstance(
                typed := content.get(name), str
            ):
                return typed
            case _:
                return ""


def _option(id: str, name: str, kind: schema.PermissionOptionKind) -> schema.PermissionOption:
    return schema.PermissionOption(option_id=id, name=name, kind=kind)
