"""The gate: every call of every tool from every source passes here, and nothing else calls Tool.execute."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import from_thread

from forge_cli.core.approval import Approval, ApprovalDecision, ApprovalRequest, Verdict, fingerprint
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.errors import BlockedError, Stale, ToolError
from forge_cli.core.events import ApprovalDecided, Status, ToolResult, ToolStarted
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.results import ResultValue, Text, as_result, bounded
from forge_cli.core.schema import InvalidInput
from forge_cli.core.text import visible
from forge_cli.core.tool import Args, Preview, Tool, ToolCall, ToolContext, ToolOutcome
from forge_cli.core.tool import Status as CallStatus
from forge_cli.core.wire import error_text
from forge_cli.engine.controller import ApprovalController
from forge_cli.engine.policy import Policy, word_of
from forge_cli.sandbox.paths import Access, Sandbox

ASK_AGAIN = 3
INTERRUPTED = '{"type": "interrupted"}'
PATH_FORMATS = {"path": Access.INFO, "entry": Access.DELETE}
"""Formats of path arguments: the file that a path leads to, or the last name itself, even if it is a link."""


class Caller(Enum):
    """Who wants a call: the model, the person in a conversation, or the operator at the command line."""

    MODEL = "model"
    PERSON = "person"
    OPERATOR = "operator"

    def may_call(self, tool: Tool) -> bool:
        match self:
            case Caller.MODEL:
                return tool.mode in ("llm", "both")
            case Caller.PERSON:
                return tool.mode in ("manual", "both")
            case Caller.OPERATOR:
                return True


@dataclass(frozen=True)
class Offer:
    """A tool as one worker offers it: under its name here, with the worker's policy for it."""

    tool: Tool
    toolset: str
    policy: Policy


@dataclass(frozen=True)
class Judged:
    """A call that could go on, with valid arguments and the verdict on it."""

    call: ToolCall
    offer: Offer
    args: Args
    paths: Mapping[str, str]
    verdict: Verdict


class Refusal(Exception):
    """The call ends here: nobody is asked, or somebody said no."""

    def __init__(self, status: CallStatus, sentence: str, by: str | None = None) -> None:
        super().__init__(sentence)
        self.status: CallStatus = status
        self.sentence = sentence
        self.by = by


@dataclass(frozen=True, kw_only=True)
class Guard:
    """One gate a session. ``offers`` is what exists right now, by name."""

    offers: Mapping[str, Offer]
    controller: ApprovalController
    bus: EventBus
    interrupt: InterruptSignal
    sandbox: Sandbox
    workspace: Path
    worker: str

    async def call(self, call: ToolCall, caller: Caller) -> ToolOutcome:
        """Take a call from its start to its one outcome, whatever happens on the way."""
        self.bus.emit(ToolStarted(call.id, call.name, call.input))
        started = time.monotonic()
        outcome = ToolOutcome.failed(call, "interrupted", INTERRUPTED)
        with self.interrupt.scope():
            try:
                outcome = await self._pass(call, caller)
            except Refusal as refusal:
                outcome = ToolOutcome.failed(call, refusal.status, refusal.sentence, by=refusal.by)
        return self._ended(replace(outcome, duration_ms=round((time.monotonic() - started) * 1000)))

    def skip(self, call: ToolCall, sentence: str) -> ToolOutcome:
        """A call that will not be taken up any more still gets its result."""
        self.bus.emit(ToolStarted(call.id, call.name, call.input))
        return self._ended(ToolOutcome.failed(call, "interrupted", sentence))

    def _ended(self, outcome: ToolOutcome) -> ToolOutcome:
        call = outcome.call
        self.bus.emit(ToolResult(call.id, call.name, outcome.status, outcome.value, outcome.duration_ms, outcome.error))
        return outcome

    async def judge(self, call: ToolCall, caller: Caller) -> Judged:
        """Does it exist, may this caller call it, is the input valid, and what does the policy say?"""
        offer = self.offers.get(call.name)
        if offer is None:
            known = ", ".join(sorted(self.offers)) or "none"
            raise Refusal("not_found", f"there is no tool '{visible(call.name)}'; the tools are: {known}")
        if not caller.may_call(offer.tool):
            who = "a person" if caller is Caller.MODEL else "the model"
            raise Refusal("blocked", f"{call.name} can only be called by {who}", by="tool")
        if call.unreadable is not None:
            raise Refusal("invalid", f"the input of {call.name} is no JSON object: {call.unreadable}")
        try:
            args = offer.tool.schema.validate(call.input)
            paths = self._paths(offer.tool, args)
            word = await word_of(offer.tool, deepcopy(args))
        except InvalidInput as error:
            raise Refusal("invalid", f"invalid input for {call.name}: {error}") from None
        except BlockedError as error:
            word = Verdict(Approval.BLOCKED, error.reason)
        except ToolError as error:
            raise Refusal("error", str(error)) from None
        return Judged(call, offer, args, paths, offer.policy.combine(word))

    async def _pass(self, call: ToolCall, caller: Caller) -> ToolOutcome:
        judged = await self.judge(call, caller)
        for _ in range(ASK_AGAIN):
            self._go_on()
            stamp = await self._settle(judged)
            self._go_on()
            try:
                return await self._execute(judged, stamp)
            except Stale as stale:
                again = f"{stale}; what was approved no longer holds, so it asks again"
                judged = replace(judged, verdict=Verdict(Approval.ASK, again, by="tool"))
        raise Refusal("error", f"{call.name}: what it touches keeps changing; try again later")

    def _go_on(self) -> None:
        """Code that never waits would not notice the end of the scope around it."""
        if self.interrupt.interrupted:
            raise Refusal("interrupted", INTERRUPTED)

    async def _settle(self, judged: Judged) -> str | None:
        """Get consent or refuse; returns the stamp of what was shown, where something was."""
        verdict = judged.verdict
        match verdict.approval:
            case Approval.PRE_APPROVED:
                self._decided(judged, ApprovalDecision(True, by=verdict.by))
                return None
            case Approval.BLOCKED:
                self._decided(judged, ApprovalDecision(False, by=verdict.by))
                raise Refusal("blocked", f"{judged.call.name} is blocked: {verdict.reason}", by=verdict.by)
            case Approval.ASK:
                return await self._consent(judged)

    async def _consent(self, judged: Judged) -> str | None:
        call, key = judged.call, self._fingerprint(judged)
        decision, stamp, request_id = self.controller.settled(key), None, None
        if decision is None:
            preview = await self._preview(judged)
            request = self._request(judged, preview)
            decision = await self.controller.request_approval(request, None if preview and preview.once else key)
            request_id, stamp = request.request_id, preview.stamp if preview else None
        self._decided(judged, decision, request_id)
        if not decision.approved:
            note = f": {decision.note}" if decision.note else ""
            whom = {"user": "the user said no", "headless": "denied", "mode": "denied"}[decision.by]
            raise Refusal("denied", f"{call.name} was not called; {whom}{note}", by=decision.by)
        return stamp

    def _decided(self, judged: Judged, decision: ApprovalDecision, request_id: str | None = None) -> None:
        verdict = judged.verdict
        reason = verdict.reason if decision.note is None else f"{verdict.reason}; {decision.note}"
        self.bus.emit(
            ApprovalDecided(
                judged.call.id,
                verdict=verdict.approval.value,
                approved=decision.approved,
                by=decision.by,
                rule=verdict.rule,
                where=verdict.where,
                reason=reason,
                cached=decision.by == "memory",
                request_id=request_id,
            )
        )

    def _request(self, judged: Judged, preview: Preview | None) -> ApprovalRequest:
        tool, verdict = judged.offer.tool, judged.verdict
        return ApprovalRequest(
            request_id=new_id("approval"),
            tool_call_id=judged.call.id,
            tool_name=tool.name,
            args=deepcopy(judged.args),
            description=f"{self.worker} wants to call {tool.name}",
            reason=verdict.reason,
            risk=tool.risk,
            rule=verdict.rule,
            where=verdict.where,
            preview=preview.value if preview else None,
            details=verdict.details or None,
        )

    async def _preview(self, judged: Judged) -> Preview | None:
        """What the call would do; one that fails is shown as failed, never means yes, and holds for one call only."""
        tool = judged.offer.tool
        if tool.preview is None:
            return None
        try:
            preview = await tool.preview(deepcopy(judged.args), self._context(judged, None))
            return replace(preview, value=bounded(as_result(preview.value)))
        except ToolError as error:
            raise Refusal("error", str(error)) from None
        except (Exception, SystemExit) as error:  # foreign code
            return Preview(Text(f"no preview: {error_text(error)}"), once=True)

    async def _execute(self, judged: Judged, stamp: str | None) -> ToolOutcome:
        tool, call = judged.offer.tool, judged.call
        with anyio.move_on_after(tool.timeout):
            try:
                value = await tool.execute(deepcopy(judged.args), self._context(judged, stamp))
                return ToolOutcome(call, "success", _kept(value))
            except Stale:
                raise
            except BlockedError as error:
                return ToolOutcome.failed(call, "blocked", str(error), by="tool")
            except ToolError as error:
                return _failed(call, error)
            except asyncio.CancelledError as error:
                if _cancelling():
                    raise
                return ToolOutcome.failed(call, "error", error_text(error))
            except (Exception, SystemExit, BaseExceptionGroup) as error:  # foreign code: a failure is a result too
                return ToolOutcome.failed(call, "error", error_text(error))
        return ToolOutcome.failed(call, "timeout", f"{call.name} was stopped after {tool.timeout:g} seconds")

    def _context(self, judged: Judged, stamp: str | None) -> ToolContext:
        return ToolContext(
            call_id=judged.call.id,
            tool=judged.offer.tool.name,
            worker=self.worker,
            workspace=self.workspace,
            sandbox=self.sandbox,
            interrupt=self.interrupt,
            paths=judged.paths,
            stamp=stamp,
            report=partial(self._progress, judged.call.id, threading.get_ident()),
        )

    def _progress(self, call_id: str, home: int, message: str, fraction: float | None) -> None:
        event = Status("info", message, tool_call_id=call_id, progress=fraction)
        if threading.get_ident() == home:
            self.bus.emit(event)
        else:
            from_thread.run_sync(self.bus.emit, event)

    def _fingerprint(self, judged: Judged) -> str:
        tool, args = judged.offer.tool, {**judged.args, **judged.paths}
        source = str(tool.source) if tool.source else judged.offer.toolset
        return fingerprint(worker=self.worker, source=source, digest=tool.digest, tool=tool.name, args=args)

    def _paths(self, tool: Tool, args: Args) -> dict[str, str]:
        """The arguments whose schema has the format of a path, as the files that they really mean."""
        properties = tool.schema.json_schema["properties"]
        formats = {name: schema.get("format") for name, schema in properties.items() if isinstance(schema, dict)}
        return {
            name: self._canonical(args[name], PATH_FORMATS[kind])
            for name, kind in formats.items()
            if kind in PATH_FORMATS and isinstance(args.get(name), str)
        }

    def _canonical(self, path: str, access: Access) -> str:
        try:
            return self.sandbox.resolve(path, access)
        except ToolError:
            return path


def _cancelling() -> bool:
    """Is it we who cancel, and not the tool that let go of a task of its own?"""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _kept(value: Any) -> ResultValue:
    return bounded(as_result(value))


def _failed(call: ToolCall, error: ToolError) -> ToolOutcome:
    sentence = str(error) or f"{call.name} failed without a word"
    outcome = ToolOutcome.failed(call, "error", sentence)
    return outcome if error.value is None else replace(outcome, value=_kept(error.value))
