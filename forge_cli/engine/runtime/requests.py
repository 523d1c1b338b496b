"""Requests of a worker's servers to its session: turns of its model, and answers of a person."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import anyio

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest, Effect, fingerprint, risk_of
from forge_cli.core.bus import new_id
from forge_cli.core.errors import ForgeError, InvalidInput, SchemaError, ToolError
from forge_cli.core.events import StatusEvent
from forge_cli.core.interrupt import Ended
from forge_cli.core.messages import ModelProvider, ModelRequest, TurnEnd
from forge_cli.core.requests import AgreeRequest, SampleReply, SampleRequest
from forge_cli.core.text import cut, visible
from forge_cli.core.wire import JsonObject, error_text
from forge_cli.engine.gate.steps import AskedCall, settled_request
from forge_cli.engine.runtime.choices import Choices, choices_of
from forge_cli.engine.turns.summary import listen
from forge_cli.schema.json.fields import as_mapping
from forge_cli.schema.json.forms import YES_NO, FormField, derive_fields
from forge_cli.schema.json.input_schema import InputSchema
from forge_cli.schema.json.problems import shown

if TYPE_CHECKING:  # commands that only look open workers as well, and take no turns
    from forge_cli.core.interrupt import InterruptSignal
    from forge_cli.engine.gate.controller import ApprovalController
    from forge_cli.engine.turns.limits import Budget
    from forge_cli.engine.turns.loop import Tally

    Work = tuple[ModelProvider, Tally, Budget]

SAMPLING = "sampling"
"""The tool name in requests for an answer of the model."""
ELICITATION = "elicitation"
"""The tool name in requests for input of a person."""
UNANSWERED = "it was interrupted before anybody answered"
MAX_TRIES = 3
"""How often a person can fill in a form before it counts as declined."""
MAX_SHOWN = 2000
"""Characters of the messages that a person sees before the model reads them."""


class WorkerRequests:
    """The requests of one worker's servers."""

    def __init__(
        self,
        worker: str,
        controller: ApprovalController,
        interrupt: InterruptSignal,
        at_hand: Callable[[], Work | None] = lambda: None,
    ) -> None:
        """Take a function that returns the current task, in which the requests count."""
        self._worker = worker
        self._bus = controller.bus
        self._controller = controller
        self._interrupt = interrupt
        self._at_hand = at_hand
        self._allowed: set[str] = set()

    @cached_property
    def _one_at_a_time(self) -> anyio.Lock:
        return anyio.Lock()

    @property
    def attended(self) -> bool:
        return self._bus.attended

    async def sample(self, request: SampleRequest) -> SampleReply:
        """Let the model answer within the worker's limits, after consent for this session."""
        if (work := self._at_hand()) is None:
            raise ToolError("no worker is running whose model could answer")
        async with self._one_at_a_time:
            await self._get_consent(request, work[0].name)
        # Another task may have begun while the person was asked.
        model, tally, budget = self._at_hand() or work
        try:
            budget.start_turn()
            text, end = await self._listen(model, request)
        except (Ended, ForgeError) as error:
            raise ToolError(f"the model did not answer: {error}") from None
        tally.usage += end.usage
        budget.spend(end.usage)
        used = f"{end.usage.input_tokens:,} tokens in, {end.usage.output_tokens:,} out"
        notice = f"{request.asker} got an answer from {model.name}: {used}"
        self._bus.emit(StatusEvent("info", notice))
        return SampleReply(text, model.name, end.stop)

    async def _listen(self, model: ModelProvider, request: SampleRequest) -> tuple[str, TurnEnd]:
        with self._interrupt.scope():
            try:
                text, end = await listen(model, ModelRequest(request.system, request.messages, ()))
            except (Ended, ForgeError):
                raise
            except Exception as error:  # third-party code: a provider
                raise ToolError(f"{model.name} failed: {error_text(error)}") from error
        if end is None:
            raise ToolError(f"{model.name} stopped in the middle of its answer")
        return text, end

    async def _get_consent(self, wanted: SampleRequest, model: str) -> None:
        """Ask for consent once in a session for each server."""
        if wanted.asker in self._allowed:
            return
        decision = await self._decide(self._approval_request(wanted, model))
        if not decision.approved:
            raise ToolError(f"the model was not asked: {decision.note or 'the user said no'}")
        self._allowed.add(wanted.asker)

    async def _decide(self, request: ApprovalRequest) -> ApprovalDecision:
        """Decide a request that cannot wait on disk, and record the decision."""
        decision = self._controller.settled(AskedCall(None))
        if decision is None:
            # Stays if an interrupt ends the scope below.
            decision = ApprovalDecision(False, note=UNANSWERED, by="headless")
            with self._interrupt.scope():
                decision = await self._controller.request_approval(request, may_park=False)
        self._bus.emit(settled_request(request, decision))
        return decision

    def _approval_request(self, wanted: SampleRequest, model: str) -> ApprovalRequest:
        said = "\n".join(f"{message.role}: {message.text}" for message in wanted.messages)
        args = {"asker": wanted.asker}
        if wanted.system:
            args["system"] = cut(wanted.system, MAX_SHOWN)
        args["messages"] = cut(said, MAX_SHOWN)
        question = f"{wanted.asker} wants {model} to answer"
        reason = "the server reads the answer; a yes is for all its requests in this session"
        return self._request(SAMPLING, wanted.asker, args, question, reason)

    async def agree(self, request: AgreeRequest) -> bool:
        """Ask like for a call; without a person the answer is no, unless all is approved."""
        told = self._request(
            request.kind, request.asker, request.args, request.question, request.reason
        )
        async with self._one_at_a_time:
            return (await self._decide(told)).approved

    def _request(
        self, kind: str, asker: str, args: JsonObject, description: str, reason: str
    ) -> ApprovalRequest:
        return ApprovalRequest(
            request_id=new_id("approval"),
            tool_call_id=new_id(kind),
            tool_name=kind,
            args=args,
            description=description,
            reason=reason,
            risk=risk_of(frozenset({Effect.NETWORK})),
            rule=f"toolsets.mcp.{kind}",
            where=None,
            fingerprint=fingerprint(
                worker=self._worker, source=asker, digest=None, tool=kind, args=args
            ),
            once=True,
        )

    async def ask_person(
        self, asker: str, message: str, schema: JsonObject, *, consent: bool = True
    ) -> JsonObject | None:
        """Ask the person to fill in a form, line by line, and again for values that do not fit.

        With ``consent``, first ask whether they want to answer at all.
        """
        if not self._bus.attended:
            text = f"{asker} asks for input, but forge cannot ask here: declined"
            self._bus.emit(StatusEvent("info", text))
            return None
        try:
            form = derive_fields(schema)
            fitting = InputSchema.of(schema)
        except SchemaError as error:
            raise ToolError(f"its form is invalid: {error}") from None
        question = f"{asker} asks: {visible(message)}"
        args: JsonObject = {
            "asker": asker,
            "message": message,
            "fields": [visible(field.name) for field in form],
        }
        request = self._request(
            ELICITATION, asker, args, question, f"{asker} reads what you answer"
        )
        with self._interrupt.scope():
            async with self._one_at_a_time:
                if consent:
                    decision = await self._decide(request)
                    if not decision.approved:
                        return None
                    if decision.by == "user":  # hooks have heard this question already
                        return await self._put_form("", form, fitting)
                mark = "" if question.endswith((".", "?", "!", ":")) else ":"
                lead = f"{question}{mark} "
                given = await self._controller.request_form(
                    request, partial(self._put_form, lead, form, fitting)
                )
                if isinstance(given, ApprovalDecision):
                    self._bus.emit(StatusEvent("warning", f"{asker} is not answered: {given.note}"))
                    return None
                return given
        return None

    async def _put_form(
        self, lead: str, form: list[FormField], schema: InputSchema
    ) -> JsonObject | None:
        given: JsonObject = {}
        unfit = form
        for _ in range(MAX_TRIES):
            if not await self._fill_in(given, unfit, lead, schema.json_schema):
                return None
            try:
                return schema.validate(given)
            except InvalidInput as error:
                self._bus.emit(StatusEvent("warning", f"that does not fit: {error}"))
                unfit = [each for each in form if each.problems(error)] or form
        text = f"the form is declined after {MAX_TRIES} invalid answers"
        self._bus.emit(StatusEvent("warning", text))
        return None

    async def _fill_in(
        self, given: JsonObject, asked: list[FormField], lead: str, schema: JsonObject
    ) -> bool:
        """Ask for each field; return False if a required one stays empty."""
        declared = as_mapping(schema.get("properties"))
        for each in asked:
            listed = choices_of(declared.get(each.name), schema)
            line = await self._bus.ask_input(
                f"{lead}{_prompt(each, listed)}", _options(each, listed)
            )
            lead = ""
            given.pop(each.name, None)
            if line is None or (not line.strip() and each.required):
                return False
            if value := line.strip():
                given[each.name] = _value(each, listed, value)
            elif each.has_default:
                given[each.name] = each.default
        return True


def _value(asked: FormField, listed: Choices | None, line: str) -> Any:
    if asked.type == "boolean":
        return YES_NO.get(line.lower(), line)
    return listed.pick(line) if listed else line


def _options(asked: FormField, listed: Choices | None) -> list[str]:
    """Return the lines that answer a field, if they are few."""
    if asked.type == "boolean":
        return ["true", "false"]
    return listed.options if listed else []


def _prompt(asked: FormField, listed: Choices | None) -> str:
    """Return the question for a field: ``size, how large it is (small|large; empty: small): ``."""
    about = ""
    if asked.description:
        about = f", {visible(cut(asked.description, 300, 'end'))}"
    hints = [listed.describe()] if listed else []
    if not listed and asked.type in ("number", "boolean", "json"):
        hints.append({"number": "a number", "boolean": "true or false", "json": "JSON"}[asked.type])
    hints.append("required" if asked.required else f"empty: {_default(asked)}")
    return f"{visible(asked.name)}{about} ({'; '.join(hints)}): "


def _default(asked: FormField) -> str:
    """Return the value of an empty line, as a person could type it."""
    if not asked.has_default or asked.default == []:
        return "none"
    if isinstance(asked.default, list):
        items = [shown(item).strip("'") for item in asked.default]
        return cut(", ".join(items), 100, "end")
    return shown(asked.default)
