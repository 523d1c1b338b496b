"""A served worker: each call of its tools passes the gate and is recorded."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Self

import anyio
from msgspec.structs import replace

from forge_cli.apps.serve.calls import ServedCall
from forge_cli.core import events
from forge_cli.core.approval import Approval, ApprovalDecision, ApprovalMode, ApprovalRequest
from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.calls import ToolCall
from forge_cli.core.context import ToolContext, current_call
from forge_cli.core.errors import ToolError, WorkerError
from forge_cli.core.interrupt import Interrupted
from forge_cli.core.phrases import COULD_NOT_ASK
from forge_cli.core.results import Json, ResultValue, Text
from forge_cli.core.tool import LONGEST, Args
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.consent import Consent
from forge_cli.engine.gate.controller import ApprovalController
from forge_cli.engine.gate.execution import TOOL
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.gate.toolbox import Toolbox
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.announcements import Announcer, OpenCalls
from forge_cli.engine.runtime.assemble import Assembler
from forge_cli.engine.runtime.children import answer_or_raise, run_to_end
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.runtime.prepared import PreparedFolder, PreparedWorker
from forge_cli.engine.runtime.result import Ending, WorkerResult
from forge_cli.engine.runtime.wiring import Assembly, Wiring
from forge_cli.engine.turns.environment import environment_of
from forge_cli.files.home import forge_home
from forge_cli.files.repository import git_branch
from forge_cli.files.settings_files import load_settings, untrusted_project
from forge_cli.files.worker import Worker
from forge_cli.record.open import OpenSession
from forge_cli.record.places import SessionLost
from forge_cli.record.recorder import Recorder
from forge_cli.sandbox.secrets import own_redactor
from forge_cli.schema.offering import GivenTools
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import ToolsetConfig

MAX_CONCURRENT = 16
"""Calls that run concurrently; others are queued."""
MAX_OPEN = 100
"""Calls that run, are queued or wait for an answer; further calls are refused."""
CLOSED = "the server is shutting down"
DELEGATING = "workers"
"""The toolset whose tools need a worker with a model."""


class ServedWorker:
    """A worker whose tools clients call, open during the ``async with`` block.

    With ``takes_tasks``, the worker itself is one of the tools.
    """

    def __init__(
        self,
        asked: RunOptions,
        worker: Worker,
        host: PluginHost,
        session: OpenSession,
        *,
        takes_tasks: bool,
    ) -> None:
        self.worker = worker
        self.bus = EventBus()
        self._host = host
        self._session = session
        self.redactor = own_redactor()
        self._asked = asked
        self._takes_tasks = takes_tasks
        self._mode = ApprovalMode.INTERACTIVE
        self._calls: dict[str, ServedCall] = {}
        self.made = 0
        """The number of calls so far."""
        self._turns = anyio.Semaphore(MAX_CONCURRENT)
        self._refreshing = anyio.Lock()
        self._stack = AsyncExitStack()
        self._announcer = Announcer(self.bus, is_root=True)
        self._tasks = anyio.create_task_group()
        self._ending: str | None = None
        self._open_calls: OpenCalls
        self._assembly: Assembly

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            settings = load_settings(forge_home(), self._asked.workspace)
            said = ApprovalMode.strictest(self.worker.config.approval.mode, settings.approval.mode)
            self._mode = said or ApprovalMode.INTERACTIVE
            self._open_calls = OpenCalls(self._recorder())
            stack.callback(self.bus.subscribe(self._open_calls))
            stack.callback(self.bus.subscribe(self._hear))
            if file := untrusted_project(forge_home(), self._asked.workspace):
                self._announcer.notify("warning", f"{file} is not used: it is not trusted")
            self._assembly = await self._assemble(stack)
            self._announcer.start(self._start(), ())
            if hooks := self._assembly.guard.judge.hooks:
                await hooks.session_starts()
            self._stack = stack.pop_all()  # from here on, __aexit__ closes everything
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for call in self._calls.values():
            call.interrupt.interrupt(self._ending or CLOSED)
        try:
            await self._tasks.__aexit__(kind, error, trace)
            if hooks := self._assembly.guard.judge.hooks:
                await hooks.session_ends()
        finally:
            with suppress(SessionLost):  # the loss of the log may be what ended the session
                for event in (*self._open_calls.ends(), events.SessionEnd(self._result().wire())):
                    self.bus.emit(event)
            self._announcer.stop()
            await self._stack.aclose()

    def end(self, reason: str) -> None:
        """Interrupt all calls and refuse new ones; leaving the ``async with`` closes the worker."""
        self._ending = self._ending or reason
        for call in self._calls.values():
            call.interrupt.interrupt(self._ending)

    def end_now(self, end: ForcedEnd) -> None:
        """Record the end from another thread, because third-party code blocks the event loop."""
        self._ending = self._ending or end.why or "out of time"
        if end.why or not end.late:
            late = None
        else:
            late = end.late.removeprefix(TOOL)
        self._open_calls.close(events.SessionEnd(self._result().wire()), late)

    @property
    def offers(self) -> dict[str, Offer]:
        """Return the tools that a client may call now, without blocked ones."""
        offers = self._assembly.toolbox.offers
        callable_tools = {tool.name for tool in self._assembly.toolbox.for_model(offers.values())}
        return {
            name: offer
            for name, offer in offers.items()
            if name in callable_tools and offer.toolset != DELEGATING and not _always_blocked(offer)
        }

    @property
    def instructions(self) -> str | None:
        """Return instructions for a client's model: the zones, and each toolset's instructions."""
        toolbox = self._assembly.toolbox
        judge = self._assembly.guard.judge
        place = environment_of(self.worker, toolbox, judge, git_branch(self._asked.workspace))
        said = filter(None, [place, *self._assembly.toolbox.instructions()])
        return self.redactor.redact_text("\n\n".join(said)) or None

    @property
    def toolbox(self) -> Toolbox:
        return self._assembly.toolbox

    def tell(self, message: str) -> None:
        """Record an action of a client that is not a call."""
        self.made += 1
        self._announcer.notify("info", message)

    @property
    def tools(self) -> Sequence[Tool]:
        return [offer.tool for offer in self.offers.values()]

    async def refresh(self) -> None:
        """Ask every toolset for its current tools."""
        async with self._refreshing:
            with suppress(WorkerError):  # keep the tools that are known already
                await self._assembly.toolbox.refresh()

    def call(self, name: str, args: JsonObject, *, can_ask: bool) -> ServedCall:
        """Start a call; raise a ToolError if too many are open."""
        if self._ending is not None:
            raise ToolError(f"{name} was not called: {CLOSED}")
        if len(self._calls) >= MAX_OPEN:
            raise ToolError(
                f"{name} was not called: {MAX_OPEN} calls are already open; wait for one of them"
            )
        self.made += 1
        call = ServedCall(ToolCall(new_id("call"), name, args), can_ask=can_ask)
        self._calls[call.call.id] = call
        self._tasks.start_soon(self._work, call)
        return call

    async def _work(self, call: ServedCall) -> None:
        shared = self._assembly.guard
        callback = call.ask if call.can_ask else None
        controller = ApprovalController(
            self._mode, callback, bus=self.bus, hooks=shared.judge.hooks
        )
        guard = dataclasses.replace(
            shared,
            consent=Consent(shared.judge, controller, call.interrupt, self._assembly.toolbox),
            interrupt=call.interrupt,
            ask_person=call.ask_person if call.can_ask else shared.ask_person,
            person_elsewhere=call.can_ask,
        )
        try:
            async with self._turns:
                await self.refresh()
                call.finish(await guard.call(call.call, Caller.MODEL))
        finally:
            del self._calls[call.call.id]

    def _hear(self, event: events.Event) -> None:
        match event:
            case events.StatusEvent(
                level, message, tool_call_id=str() as call, progress=fraction
            ) if call in self._calls:
                self._calls[call].say(level, message)
                self._calls[call].report(message, fraction)
            case events.ToolOutput(tool_call_id=call, text=text) if (
                call in self._calls and text.strip()
            ):
                self._calls[call].report(text.strip().splitlines()[-1], None)
            case _:
                pass

    async def _ask_for_command(self, request: ApprovalRequest) -> ApprovalDecision:
        """Ask the client whose call runs a command, for example about a connection."""
        call = self._calls.get(current_call() or "")
        if call is None or not call.can_ask:
            return ApprovalDecision(False, note=COULD_NOT_ASK)
        return await call.ask(request)

    async def _assemble(self, stack: AsyncExitStack) -> Assembly:
        worker = self.worker
        if self._takes_tasks:
            task = WorkerTask(self._asked, self.worker, self._host, self._calls.get)
            worker = dataclasses.replace(
                worker, toolsets=(*worker.toolsets, GivenTools(ToolsetConfig(), [task.as_tool()]))
            )
        assembler = Assembler(
            self._folder(worker),
            Wiring(
                bus=self.bus,
                session=self._session,
                session_id=self._session.id,
                read_only=self._asked.read_only,
            ),
            ApprovalController(self._mode, self._ask_for_command, bus=self.bus),
            stack,
            self._announcer.notify,
            before_result=self.redactor.redact_ahead,
        )
        return await assembler.assemble()

    def _recorder(self) -> Recorder:
        sinks = (*self._session.sinks, *self._folder(self.worker).sinks(self._session.id, self.bus))
        return Recorder(
            *sinks, session=self._session.id, worker=self.worker.name, redactor=self.redactor
        )

    def _folder(self, worker: Worker) -> PreparedFolder:
        return PreparedWorker(worker, self._host, locked=self._asked.locked).within(
            self._asked.workspace
        )

    def _start(self) -> events.SessionStart:
        return events.SessionStart(
            events.CLIENTS,
            str(self._asked.workspace),
            self._mode.value,
            worker_file=str(self.worker.path),
            read_only=self._asked.read_only or None,
        )

    def _result(self) -> WorkerResult:
        ending = Ending("")
        if self._ending is not None:
            stop = Interrupted(self._ending)
            ending = Ending("", "interrupted", stop.exit_code, self._ending)
        result = WorkerResult.of(
            ending, session_id=self._session.id, worker=self.worker.name, model=events.CLIENTS
        )
        return replace(result, tool_calls=self.made)


def _always_blocked(offer: Offer) -> bool:
    verdict = offer.policy.fixed(offer.tool)
    return verdict is not None and verdict.approval is Approval.BLOCKED


INPUT: JsonObject = {
    "type": "object",
    "properties": {"task": {"type": "string", "minLength": 1, "description": "The task."}},
    "required": ["task"],
    "additionalProperties": False,
}


class WorkerTask:
    """The tool that gives the worker a task; each task has its own session.

    Questions of the session go to the client that made the call.
    """

    def __init__(
        self,
        asked: RunOptions,
        worker: Worker,
        host: PluginHost,
        find_call: Callable[[str], ServedCall | None],
    ) -> None:
        self.asked = asked
        self.worker = worker
        self.host = host
        self.find_call = find_call

    def as_tool(self) -> Tool:
        worker = self.worker
        return Tool(
            # model providers accept at most 64 of these characters
            name=re.sub(r"[^a-zA-Z0-9_-]", "_", f"run_{worker.name}")[:64],
            description=worker.config.description or f"Gives a task to the worker '{worker.name}'.",
            input_schema=INPUT,
            execute=self._carry_out,
            needs_approval=False,  # every call that the worker makes passes its gate
            delegates=True,
            timeout=LONGEST,
        )

    async def _carry_out(self, args: Args, context: ToolContext) -> ResultValue:
        call = self.find_call(context.call_id)
        asked = self.asked
        with (
            context.interrupt.child() as signal,
            asked.open_session(self.worker, lambda sentence: None, task=args["task"]) as session,
        ):
            context.report(f"session {session.id}", None)
            runtime = asked.runtime(
                self.worker,
                session,
                Wiring(host=self.host),
                approval_callback=call.ask if call and call.can_ask else None,
                on_event=lambda event: _tell(event, context),
                interrupt_signal=signal,
            )

            async def work() -> WorkerResult:
                async with runtime:
                    return await runtime.run(args["task"])

            result = await run_to_end(work, signal, lambda: runtime.has_started)
        answer = answer_or_raise(result)
        return Text(answer) if result.output is None else Json(result.output)


def _tell(event: events.Event, context: ToolContext) -> None:
    """Report the worker's progress to a client."""
    match event:
        case events.TurnStart(turn=turn):
            context.report(f"turn {turn}", None)
        case events.ToolStarted(tool_name=name):
            context.report(f"calls {name}", None)
        case events.WorkerUpdate(status=status) if event.origin:
            context.report(f"{event.origin.worker}: {status}", None)
        case _:
            pass
