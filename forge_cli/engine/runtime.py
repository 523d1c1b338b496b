"""WorkerRuntime: a worker at work, for programs and for the command line alike."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from forge_cli.core.approval import ApprovalMode, OnAsk
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.errors import ExitCode, ForgeError, UsageError, WorkerError
from forge_cli.core.events import (
    Event,
    Interrupt,
    ManualToolInvoke,
    ManualToolsAvailable,
    SessionEnd,
    SessionStart,
    Status,
)
from forge_cli.core.interrupt import TERMINATED, InterruptSignal
from forge_cli.core.messages import Attachment, ModelEnv, ModelProvider, Usage
from forge_cli.core.tool import Tool, ToolCall, ToolOutcome, manual_tools
from forge_cli.core.toolset import Level
from forge_cli.engine.assemble import Assembly, Toolbox, assemble
from forge_cli.engine.controller import ApprovalCallback, ApprovalController
from forge_cli.engine.guard import Caller, Guard
from forge_cli.engine.history import History
from forge_cli.engine.host import PluginHost
from forge_cli.engine.loop import Interrupted, LimitReached, Loop, Stopped, Tally
from forge_cli.engine.record import Recorder, Sink
from forge_cli.files.guidance import read_guidance
from forge_cli.files.home import forge_home
from forge_cli.files.settings import ModelOptions, Settings, load_settings
from forge_cli.files.worker import DEFAULT_MAX_TURNS, Worker
from forge_cli.sandbox.secrets import Redactor

ResultStatus = Literal["completed", "failed", "denied", "limit", "interrupted"]
INTERRUPTED = "[Interrupted]"


@dataclass(frozen=True, kw_only=True)
class WorkerResult:
    """How a task ended. An interrupted one is no failure: ``success`` is True and the response says so."""

    status: ResultStatus
    exit_code: ExitCode
    response: str
    session_id: str
    worker: str
    model: str
    turns: int = 0
    tool_calls: int = 0
    denials: tuple[Mapping[str, Any], ...] = ()
    usage: Usage = field(default_factory=Usage)
    duration_ms: int = 0
    error: str | None = None

    @property
    def success(self) -> bool:
        return self.status in ("completed", "interrupted")

    def wire(self) -> dict[str, Any]:
        """The object that ``--output-format json`` prints; ``error`` is there only when there was one."""
        found = {
            "status": self.status,
            "exit_code": int(self.exit_code),
            "response": self.response,
            "output": None,
            "session_id": self.session_id,
            "worker": self.worker,
            "model": self.model,
            "turns": self.turns,
            "tool_calls": self.tool_calls,
            "denials": [dict(denial) for denial in self.denials],
            "usage": asdict(self.usage),
            "cost": None,
            "duration_ms": self.duration_ms,
        }
        return found if self.error is None else {**found, "error": self.error}


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
    max_turns: int | None = None
    host: PluginHost = field(default_factory=PluginHost)
    sinks: tuple[Sink, ...] = ()

    def __post_init__(self) -> None:
        self.session_id = uuid.uuid4().hex
        self._stack = AsyncExitStack()
        self._loop: Loop | None = None
        self._early: list[Status] = []
        self._result: WorkerResult | None = None

    @property
    def is_root(self) -> bool:
        return self.depth == 0

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
        settings = load_settings(forge_home())
        workspace = (self.workspace or Path.cwd()).resolve()
        controller = ApprovalController(self._mode(settings), self.approval_callback, bus=self.bus)
        self._listen()
        model = self._model(settings, workspace)
        self._stack.push_async_callback(model.aclose)
        assembly = await assemble(
            self.worker,
            workspace=workspace,
            host=self.host,
            controller=controller,
            interrupt=self.interrupt_signal,
            notify=self._notify,
            stack=self._stack,
        )
        guidance = read_guidance(workspace) if self.worker.config.agents_md else ""
        system = [self.worker.instructions, guidance, *assembly.toolbox.instructions()]
        self._loop = self._make_loop(model, assembly, settings, system)
        self.bus.emit(SessionStart(model.name, str(workspace), controller.mode.value))
        for status in self._early:
            self.bus.emit(status)
        self._announce_manual(assembly.toolbox)

    def _listen(self) -> None:
        """The record hears everything first, then the program."""
        if self.sinks:
            recorder = Recorder(
                session=self.session_id, worker=self.worker.name, depth=self.depth, redactor=Redactor(os.environ)
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

    def _mode(self, settings: Settings) -> ApprovalMode:
        """What the caller says wins; otherwise the strictest of what worker and user say."""
        if self.approval_mode is not None:
            return ApprovalMode(self.approval_mode)
        stated = ApprovalMode.strictest(self.worker.config.approval.mode, settings.approval.mode)
        return stated or ApprovalMode.INTERACTIVE

    def _model(self, settings: Settings, workspace: Path) -> ModelProvider:
        given = self.model
        if given is not None and not isinstance(given, str):
            return given
        folders: tuple[Path, ...] = (workspace, Path.cwd())
        if given is None and self.worker.config.model:
            given, folders = self.worker.config.model, (self.worker.folder,)
        given = given or os.environ.get("FORGE_MODEL") or settings.model
        if not given:
            hint = "name one with -m PROVIDER:MODEL, `model:` in the worker, or FORGE_MODEL; script:FILE needs no key"
            raise WorkerError(None, f"no model is named for the worker '{self.worker.name}'", hint=hint)
        prefix, colon, name = given.partition(":")
        if not colon or not name:
            raise WorkerError(None, f"'{given}' is no model", hint="write PROVIDER:MODEL, such as script:demo.yaml")
        options = settings.models.get(given, ModelOptions()).model_dump(exclude_none=True)
        return self.host.model(prefix).make(name, ModelEnv(folders=folders, notify=self._notify, options=options))

    def _make_loop(self, model: ModelProvider, assembly: Assembly, settings: Settings, system: Sequence[str]) -> Loop:
        toolbox, guard = assembly.toolbox, assembly.guard
        limits = [self.max_turns, self.worker.config.limits.max_turns, settings.limits.max_turns]
        return Loop(
            model=model,
            toolbox=toolbox,
            guard=guard,
            bus=self.bus,
            interrupt=self.interrupt_signal,
            history=History(),
            system="\n\n".join(filter(None, system)),
            max_turns=min((limit for limit in limits if limit is not None), default=DEFAULT_MAX_TURNS),
            stop_on_refusal=self.on_ask is OnAsk.FAIL and not guard.controller.attended,
        )

    def _announce_manual(self, toolbox: Toolbox) -> None:
        manual = manual_tools([offer.tool for offer in toolbox.offers.values()])
        if manual:
            self.bus.emit(ManualToolsAvailable(tuple(_menu_entry(tool) for tool in manual)))

    def _notify(self, level: Level, message: str) -> None:
        """Tell whoever watches; what comes up before the session has started waits for its start."""
        if self._loop is None:
            self._early.append(Status(level, message))
        else:
            self.bus.emit(Status(level, message))

    def _ready(self) -> Loop:
        if self._loop is None:
            raise UsageError(
                "the runtime is not open", hint="use `async with WorkerRuntime(...)`, or await initialize()"
            )
        return self._loop

    async def run(self, task: str, attachments: Sequence[Attachment] = ()) -> WorkerResult:
        """Work on one task; at the root the conversation so far is kept for the next one."""
        loop, tally, started = self._ready(), Tally(), time.monotonic()
        if not task.strip():
            raise UsageError("the task is empty", hint='say what to do: forge run WORKER "TASK"')
        status: ResultStatus
        error: str | None = None
        code = ExitCode.DONE
        try:
            status, response = "completed", await loop.work(task, attachments, tally)
        except Interrupted:
            terminated = self.interrupt_signal.reason == TERMINATED
            code = ExitCode.TERMINATED if terminated else ExitCode.INTERRUPTED
            status, response = "interrupted", INTERRUPTED
        except LimitReached as limit:
            status, code, response, error = "limit", ExitCode.LIMIT, _last_words(loop), str(limit)
        except Stopped as stop:
            status, code, response, error = "denied", ExitCode.DENIED, _last_words(loop), str(stop)
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
            tool_calls=len(tally.outcomes),
            denials=tuple(_denial(outcome) for outcome in tally.outcomes if outcome.status in ("denied", "blocked")),
            usage=tally.usage,
            duration_ms=round((time.monotonic() - started) * 1000),
            error=error,
        )
        return self._result

    async def invoke(self, tool: str, args: Mapping[str, Any], caller: Caller = Caller.PERSON) -> ToolOutcome:
        """Call one tool by hand, through the same gate; the model's history does not learn of it."""
        self._ready()
        if caller is Caller.PERSON:
            self.bus.emit(ManualToolInvoke(tool, dict(args)))
        return await self.guard.call(ToolCall(new_id("manual"), tool, dict(args)), caller)

    def interrupt(self, reason: str = "interrupted") -> None:
        """Stop the turn: the running call ends, pending ones get the result ``interrupted``."""
        self.bus.emit(Interrupt(reason))
        self.interrupt_signal.interrupt(reason)

    async def aclose(self) -> None:
        """Close what is open; the root says how it ended."""
        if self._loop and self._result and self.is_root:
            self.bus.emit(SessionEnd(self._result.wire()))
        self._loop = None
        await self._stack.aclose()


def _last_words(loop: Loop) -> str:
    return next((message.text for message in reversed(loop.history) if message.role == "assistant"), "")


def _denial(outcome: ToolOutcome) -> dict[str, Any]:
    return {
        "tool": outcome.call.name,
        "input": outcome.call.input,
        "reason": outcome.error or "",
        "by": outcome.by or "rule",
    }


def _menu_entry(tool: Tool) -> dict[str, Any]:
    manual = tool.manual
    return {
        "name": tool.name,
        "label": (manual.label if manual else None) or tool.name,
        "category": manual.category if manual else None,
        "description": tool.description,
    }
