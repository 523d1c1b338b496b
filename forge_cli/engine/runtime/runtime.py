"""WorkerRuntime: a worker at work, for programs and for the command line alike."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from forge_cli.core.approval import ApprovalMode, OnAsk
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.events import (
    Event,
    Interrupt,
    ManualToolInvoke,
    ManualToolsAvailable,
    SessionEnd,
    SessionStart,
    StatusEvent,
)
from forge_cli.core.interrupt import TERMINATED, InterruptSignal
from forge_cli.core.messages import Attachment, ModelProvider
from forge_cli.core.phrases import INTERRUPTED_ANSWER, RESUME_INTERRUPTED
from forge_cli.core.tool import Tool, ToolCall, ToolOutcome, manual_tools
from forge_cli.core.toolset import StatusLevel
from forge_cli.engine.gate.controller import ApprovalCallback, ApprovalController, Parked
from forge_cli.engine.gate.guard import Guard
from forge_cli.engine.gate.judge import Caller, Reopened
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.replay.replay import Replay
from forge_cli.engine.runtime.assemble import Assembly, Toolbox, assemble
from forge_cli.engine.runtime.children import CalledWorkers
from forge_cli.engine.runtime.delegation import Above, close_lost
from forge_cli.engine.runtime.model import NamedModel, named_model
from forge_cli.engine.runtime.result import ResultStatus, WorkerResult, denials_of
from forge_cli.engine.turns.history import History
from forge_cli.engine.turns.limits import Budget, LimitReached, stated
from forge_cli.engine.turns.loop import Interrupted, InvalidOutput, Loop, Stopped, Tally
from forge_cli.engine.turns.output import OutputSchema
from forge_cli.engine.turns.prices import LatePrice
from forge_cli.engine.turns.prompt import system_prompt, wanted_output
from forge_cli.engine.turns.window import Context
from forge_cli.files.home import forge_home
from forge_cli.files.settings import load_settings
from forge_cli.files.worker import Limits, Worker
from forge_cli.record.log import SessionLost, new_session_id
from forge_cli.record.recorder import Recorder, Sink
from forge_cli.record.resume import Past
from forge_cli.sandbox.secrets import Redactor

OUT_OF_TIME = "out of time"


@dataclass(frozen=True)
class Resumed:
    """A session that goes on: what it has come to, and the last line of its log."""

    past: Past
    last: Mapping[str, Any]
    forked_from: str | None = None
    model: str | None = None
    """The model that answered before; it does so again where nobody names one."""
    output_schema: OutputSchema | None = None
    """What the answer had to fit; it still has to, where the same task goes on."""


@dataclass(kw_only=True)
class WorkerRuntime:
    """Runs one worker: ``async with WorkerRuntime(worker=load_worker(path)) as runtime: await runtime.run(task)``.

    ``initialize`` and ``aclose`` belong to one task. Without ``approval_callback`` a call that asks goes to whoever
    answers on ``bus``; with nobody there it is denied at once.
    """

    worker: Worker
    model: str | ModelProvider | None = None
    approval_mode: ApprovalMode | str | None = None
    approval_callback: ApprovalCallback | None = None
    on_event: Callable[[Event], None] | None = None
    interrupt_signal: InterruptSignal = field(default_factory=InterruptSignal)
    depth: int = 0
    bus: EventBus = field(default_factory=EventBus)
    workspace: Path | None = None
    on_ask: OnAsk = OnAsk.DENY
    limits: Limits = field(default_factory=Limits)
    output_schema: OutputSchema | None = None
    host: PluginHost = field(default_factory=PluginHost)
    sinks: tuple[Sink, ...] = ()
    session_id: str = field(default_factory=new_session_id)
    resumed: Resumed | None = None
    above: Above | None = None
    """What caps a worker that another one called; the root has nothing above it."""
    replay: Replay | None = None
    """The record of a session that is repeated: it is the model then, and nothing is asked of any other."""

    def __post_init__(self) -> None:
        self._stack = AsyncExitStack()
        self._loop: Loop | None = None
        self._started = self._ended = False
        self._early: list[StatusEvent] = []
        self._result: WorkerResult | None = None
        self.redactor = Redactor(os.environ)
        self._past = self.resumed.past if self.resumed else None
        self._below = CalledWorkers(self, self._past)
        self._named: NamedModel | None = None

    @property
    def is_root(self) -> bool:
        return self.depth == 0

    @property
    def has_started(self) -> bool:
        """Is or was everything open, so that an interrupt has something to stop?"""
        return self._started

    @property
    def tools(self) -> list[Tool]:
        """What the worker can call right now."""
        return [offer.tool for offer in self._ready().toolbox.offers.values()]

    @property
    def guard(self) -> Guard:
        return self._ready().guard

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def initialize(self) -> None:
        """Open everything the worker names; what is wrong with it is raised here, before anything runs."""
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise

    async def _open(self) -> None:
        self.settings = load_settings(forge_home())
        self.workspace = workspace = (self.workspace or Path.cwd()).resolve()
        self.controller = controller = ApprovalController(
            self._mode(),
            self.approval_callback,
            bus=self.bus,
            parks=self.on_ask is OnAsk.PARK,
            above=self.above.controller if self.above else None,
        )
        self._listen()
        output = self._output()
        model = self._model(workspace)
        if self.above is None or model is not self.above.model:
            self._stack.push_async_callback(model.aclose)
        self._price = LatePrice(model.name, self.settings.options(model.name))
        inherited = [budget.limits for budget in self.above.budget.chain] if self.above else []
        if self.replay is None:
            self._price.require([self.limits, self.worker.config.limits, *inherited], self.settings.limits)
        self.budget = self._new_budget()
        spare = self._spare()
        assembly = await assemble(
            self.worker,
            workspace=workspace,
            host=self.host,
            controller=controller,
            interrupt=self.interrupt_signal,
            notify=self._notify,
            stack=self._stack,
            within=self.above.assembly if self.above else None,
            make_zones=spare is None,
            spare=spare,
        )
        self._loop = self._make_loop(model, assembly, output)
        self._started = True
        if self.is_root:
            self._announce(model, assembly.toolbox)

    def _spare(self) -> Path | None:
        """Where a replay that must not change anything lays the folders of zones that are missing."""
        if self.replay is None or not self.replay.keeps_still:
            return None
        return Path(self._stack.enter_context(TemporaryDirectory(prefix="forge-"))).resolve()

    def _listen(self) -> None:
        """The record hears everything first, then the program."""
        if self.sinks:
            recorder = Recorder(
                session=self.session_id,
                worker=self.worker.name,
                depth=self.depth,
                redactor=self.redactor,
                after=dict(self.resumed.last) if self.resumed else None,
            )
            for sink in self.sinks:
                recorder.add_sink(sink)
            self._stack.callback(self.bus.subscribe(recorder))
        if self.on_event:
            self._stack.callback(self.bus.subscribe(self.on_event))
        self._stack.callback(self.bus.subscribe(self._obey))

    def _obey(self, event: Event) -> None:
        if isinstance(event, Interrupt):
            self.interrupt_signal.interrupt(event.reason)

    def _mode(self) -> ApprovalMode:
        """What the program says wins; else the strictest of what worker and user say.

        A worker that another one called takes the stricter of the caller's and its own.
        """
        own = self.worker.config.approval.mode
        if self.above:
            return ApprovalMode.strictest(self.above.controller.mode, own) or ApprovalMode.INTERACTIVE
        if self.approval_mode is not None:
            return ApprovalMode(self.approval_mode)
        return ApprovalMode.strictest(own, self.settings.approval.mode) or ApprovalMode.INTERACTIVE

    def _output(self) -> OutputSchema | None:
        """What the program says, else what an unfinished task was begun with, else what the worker says."""
        if self.output_schema is None and self.resumed and self.resumed.past.unfinished:
            self.output_schema = self.resumed.output_schema
        return self.output_schema or wanted_output(self.worker)

    def _model(self, workspace: Path) -> ModelProvider:
        if self.replay is not None:
            if self.is_root:
                self._notify("info", self.replay.announcement)
            return self.replay
        if self.model is not None and not isinstance(self.model, str):
            return self.model
        above = self.above
        if above and above.named is None and self.model is None and not self.worker.config.model:
            return above.model
        before = self.resumed.model if self.resumed else None
        named = named_model(self.model, self.worker, above.named if above else None, self.settings, workspace, before)
        self._named = named
        return named.make(self.host, self.settings, self._notify)

    def _make_loop(self, model: ModelProvider, assembly: Assembly, output: OutputSchema | None) -> Loop:
        toolbox = assembly.toolbox
        guard = replace(
            assembly.guard,
            redact=self.redactor.redact,
            reopened=self._reopened(),
            delegate=self._below.delegate,
            repeated=self.replay,
        )
        history = History(self._past.messages if self._past else (), self.redactor.redact)
        return Loop(
            model=model,
            toolbox=toolbox,
            guard=guard,
            bus=self.bus,
            interrupt=self.interrupt_signal,
            history=history,
            context=Context(
                history=history,
                bus=self.bus,
                window=self.settings.options(model.name).context or model.context_window,
                counted=self._past.counted if self._past else None,
            ),
            system=system_prompt(self.worker, guard.workspace, toolbox, output),
            stop_on_refusal=self.on_ask is OnAsk.FAIL and not guard.controller.attended,
            output=output,
        )

    def _reopened(self) -> Reopened:
        """What is known of the calls before; what may have run is the same for all workers of a session."""
        found = Reopened.of(self._past) if self._past else Reopened()
        if self.above:
            found.may_have_run = self.above.assembly.guard.reopened.may_have_run
        return found

    def _announce(self, model: ModelProvider, toolbox: Toolbox) -> None:
        self.bus.emit(
            SessionStart(
                model.name,
                str(self.workspace),
                self.controller.mode.value,
                worker_file=str(self.worker.path),
                resumed=self.resumed.last["seq"] if self.resumed else None,
                forked_from=self.resumed.forked_from if self.resumed else None,
                output_schema=self.output_schema.json_schema if self.output_schema else None,
            )
        )
        for status in self._early:
            self.bus.emit(status)
        manual = manual_tools([offer.tool for offer in toolbox.offers.values()])
        if manual:
            self.bus.emit(ManualToolsAvailable(tuple(_menu_entry(tool) for tool in manual)))

    def _notify(self, level: StatusLevel, message: str) -> None:
        """Tell whoever watches; what comes up before the session has started waits for its start."""
        if self._loop is None and self.is_root:
            self._early.append(StatusEvent(level, message))
        else:
            self.bus.emit(StatusEvent(level, message))

    def _ready(self) -> Loop:
        if self._loop is None:
            raise UsageError(
                "the runtime is not open", hint="use `async with WorkerRuntime(...)`, or await initialize()"
            )
        return self._loop

    async def run(self, task: str, attachments: Sequence[Attachment] = ()) -> WorkerResult:
        """Work on one task; at the root the conversation so far is kept for the next one.

        A session that goes on may be given no task: then it goes on with what it was doing.
        """
        loop, tally, started = self._ready(), Tally(), time.monotonic()
        past, self._past = self._past, None
        self._below.results.clear()
        if not task.strip() and not (past and past.unfinished):
            sentence = "the session has nothing left to do" if past else "the task is empty"
            raise UsageError(sentence, hint='say what to do: forge run WORKER "TASK"')
        if past and past.mid_sentence and not task.strip():
            task = RESUME_INTERRUPTED
        if self.interrupt_signal.reason == OUT_OF_TIME:
            self.interrupt_signal.reset()
        self.budget = budget = self._new_budget()
        status: ResultStatus
        error: str | None = None
        code = ExitCode.DONE
        try:
            with self._deadline(budget):
                if past:
                    close_lost(past.lost, self.bus, self.path)
                    await loop.go_on(past, tally)
                status, response = "completed", await loop.work(task, attachments, tally, budget)
        except Interrupted:
            status, code, response, error = self._interrupted(loop, budget)
        except LimitReached as limit:
            status, code, response, error = "limit", ExitCode.LIMIT, _last_words(loop), str(limit)
        except Stopped as stop:
            status, code, response, error = "denied", ExitCode.DENIED, _last_words(loop), str(stop)
        except InvalidOutput as misfit:
            status, code, response, error = "invalid_output", ExitCode.MISFIT, _last_words(loop), str(misfit)
        except Parked as parked:
            status, code, response, error = "parked", ExitCode.PARKED, _last_words(loop), self._how_to_answer(parked)
        except ForgeError as failure:
            status, code, response, error = "failed", failure.exit_code, _last_words(loop), str(failure)
        self._result = WorkerResult(
            status=status,
            exit_code=code,
            response=response,
            session_id=self.session_id,
            worker=self.worker.name,
            model=loop.model.name,
            turns=tally.turns,
            tool_calls=tally.calls + sum(result.tool_calls for result in self._below.results),
            denials=(*denials_of(tally.outcomes), *(each for result in self._below.results for each in result.denials)),
            usage=budget.usage,
            cost=budget.cost,
            output=tally.output,
            duration_ms=round((time.monotonic() - started) * 1000),
            error=error,
        )
        return self._result

    def _new_budget(self) -> Budget:
        own = self.worker.config.limits
        limits = own if self.above else stated(self.limits, own, self.settings.limits)
        return Budget(limits, self._price, self.above.budget if self.above else None, worker=self.worker.name)

    @contextmanager
    def _deadline(self, budget: Budget) -> Iterator[None]:
        """When the time is over, everything stops as if somebody had interrupted it."""
        seconds = budget.seconds_left()
        if seconds is None:
            yield
            return
        timer = asyncio.get_running_loop().call_later(seconds, self.interrupt_signal.interrupt, OUT_OF_TIME)
        try:
            yield
        finally:
            timer.cancel()

    def _interrupted(self, loop: Loop, budget: Budget) -> tuple[ResultStatus, ExitCode, str, str | None]:
        match self.interrupt_signal.reason:
            case str(reason) if reason == OUT_OF_TIME:
                return "limit", ExitCode.LIMIT, _last_words(loop), str(budget.out_of_time())
            case str(reason) if reason == TERMINATED:
                return "interrupted", ExitCode.TERMINATED, INTERRUPTED_ANSWER, None
            case _:
                return "interrupted", ExitCode.INTERRUPTED, INTERRUPTED_ANSWER, None

    def _how_to_answer(self, parked: Parked) -> str:
        if self.above:
            return str(parked)
        return f"parked: {parked}\n  forge approvals list shows what waits; after the answers: -r {self.session_id}"

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the workers from the root down to this one."""
        return self.bus.path or (self.worker.name,)

    def as_caller(self) -> Above:
        """What caps the workers that this one calls."""
        loop = self._ready()
        return Above(
            workers=(*(self.above.workers if self.above else ()), self.worker),
            assembly=Assembly(loop.toolbox, loop.guard),
            controller=self.controller,
            budget=self.budget,
            model=loop.model,
            named=self._named,
        )

    def called(self, worker: Worker, bus: EventBus, signal: InterruptSignal, past: Past | None) -> WorkerRuntime:
        """The runtime of a worker that this one calls; ``past`` is where it was left."""
        return WorkerRuntime(
            worker=worker,
            approval_callback=self.approval_callback,
            interrupt_signal=signal,
            depth=self.depth + 1,
            bus=bus,
            workspace=self.workspace,
            on_ask=self.on_ask,
            host=self.host,
            session_id=self.session_id,
            resumed=Resumed(past, {}) if past else None,
            above=self.as_caller(),
        )

    async def invoke(self, tool: str, args: Mapping[str, Any], caller: Caller = Caller.PERSON) -> ToolOutcome:
        """Call one tool by hand, through the same gate; the model's history does not learn of it."""
        self._ready()
        if caller is Caller.PERSON:
            self.bus.emit(ManualToolInvoke(tool, dict(args)))
        return await self.guard.call(ToolCall(new_id("manual"), tool, dict(args)), caller)

    def interrupt(self, reason: str = "interrupted") -> None:
        """Stop the turn: the running call ends, pending ones get the result ``interrupted``."""
        if not self._ended:
            with suppress(SessionLost):
                self.bus.emit(Interrupt(reason))
        self.interrupt_signal.interrupt(reason)

    async def aclose(self) -> None:
        """Close what is open; the root says how it ended."""
        self._ended = True
        if self._loop and self._result and self.is_root:
            self.bus.emit(SessionEnd(self._result.wire()))
        self._loop = None
        await self._stack.aclose()


def _last_words(loop: Loop) -> str:
    return next((message.text for message in reversed(loop.history) if message.role == "assistant"), "")


def _menu_entry(tool: Tool) -> dict[str, Any]:
    manual = tool.manual
    return {
        "name": tool.name,
        "label": (manual.label if manual else None) or tool.name,
        "category": manual.category if manual else None,
        "description": tool.description,
    }
