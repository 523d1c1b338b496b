"""Opening a worker: the record, the approval mode, the model, the tools behind the gate, and the loop with them all."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from forge_cli import engine, files, record, sandbox
from forge_cli.core.actions import Interrupt
from forge_cli.core.approval import ApprovalMode, OnAsk
from forge_cli.core.bounds import CALL_LIMIT, fault_text, wait_within
from forge_cli.core.errors import ModelError
from forge_cli.core.events import ApprovalRequired, Event, SessionStart
from forge_cli.engine.gate.controller import ApprovalController
from forge_cli.engine.gate.offer import OfferedTools, ToolRoom
from forge_cli.engine.runtime.announcements import OpenCalls
from forge_cli.engine.runtime.assemble import Assembler, Assembly, temporary_folder
from forge_cli.engine.runtime.model import ChosenModel, choose_model
from forge_cli.engine.turns.environment import (
    describe_changes,
    describe_zone,
    environment_of,
    system_prompt,
    wanted_output,
)
from forge_cli.engine.turns.limits import Budget, LatePrice, stated
from forge_cli.engine.turns.loop import EnvironmentChange, Loop, Tally
from forge_cli.engine.turns.window import Context, History
from forge_cli.files.home import close_home, has_policy
from forge_cli.files.repository import git_branch
from forge_cli.files.settings import Settings, untrusted_project
from forge_cli.record.recorder import Recorder

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus
    from forge_cli.core.messages import ModelProvider
    from forge_cli.core.notify import Notify
    from forge_cli.engine.gate.guard import Delegate
    from forge_cli.engine.gate.resumed import ResumedCalls
    from forge_cli.engine.runtime.prepared import PreparedFolder
    from forge_cli.engine.runtime.runtime_spec import RuntimeSpec
    from forge_cli.files.worker import Worker
    from forge_cli.sandbox.secrets import Redactor


class OpenWorker(Struct, frozen=True, kw_only=True):
    """A worker with everything open, ready for its tasks."""

    spec: RuntimeSpec
    folder: PreparedFolder
    assembly: Assembly
    model: ChosenModel
    price: LatePrice
    loop: Loop
    open_calls: OpenCalls
    budget: Budget | None = None
    """Of the task at hand, which its children use as well."""

    def start_task(self, tally: Tally, budget: Budget) -> None:
        """Count what servers have the model answer from now on in this task."""
        if self.spec.replay is None:  # the record has no such turns
            self.assembly.at_hand.work = self.model.provider, tally, budget

    def new_budget(self) -> Budget:
        """The budget of the next task."""
        spec, own = self.spec, self.spec.worker.config.limits
        limits = own if spec.parent else stated(spec.limits, own, self.folder.settings.limits)
        parent, pool = (spec.parent.budget, None) if spec.parent else (None, spec.pool)
        return Budget(limits, self.price, parent, worker=spec.worker.name, pool=pool)

    @property
    def workers(self) -> tuple[Worker, ...]:
        """From the root down to this one."""
        above = self.spec.parent.workers if self.spec.parent else ()
        return (*above, self.spec.worker)

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the workers from the root down to this one."""
        return tuple(worker.name for worker in self.workers)

    @property
    def zones(self) -> tuple[Mapping[str, Any], ...]:
        """The zones, as events tell them."""
        return tuple(describe_zone(zone) for zone in self.assembly.guard.judge.late_sandbox.zones)

    @property
    def isolation(self) -> str:
        return self.assembly.guard.judge.late_sandbox.isolation.level.value

    def start(self) -> SessionStart:
        resume, schema = self.spec.resume, self.spec.stated_schema
        return SessionStart(
            self.model.provider.name,
            str(self.folder.workspace),
            self.assembly.guard.controller.mode.value,
            worker_file=str(self.spec.worker.path),
            resumed=resume.last.seq if resume and resume.last else None,
            forked_from=resume.forked_from if resume else None,
            output_schema=schema.json_schema if schema else None,
            title=resume.title if resume else None,
            batch=self.spec.batch,
            zones=self.zones,
            isolation=self.isolation,
            read_only=self.spec.read_only or None,
            guidance=tuple(map(str, self.folder.guidance(self.spec.guidance).files)) or None,
            session=self.spec.session_id,
            worker=self.spec.worker.name,
        )


async def open_worker(spec: RuntimeSpec, stack: AsyncExitStack, notify: Notify, delegate: Delegate) -> OpenWorker:
    """Open everything that the worker names; ``stack`` closes it."""
    prepared = spec.prepare()
    folder = prepared.within(spec.workspace or _own_workspace(spec.worker) or Path.cwd())
    settings = folder.settings
    spec = spec.required_by(folder.organisation)
    closed = close_home(prepared.home) if spec.is_root else None
    controller = ApprovalController(
        approval_mode_of(spec, settings),
        spec.approval_callback,
        bus=spec.bus,
        parks=spec.on_ask is OnAsk.PARK,
        parent=spec.parent.assembly.guard.controller if spec.parent else None,
    )
    open_calls = _listen(spec, folder, stack)
    if spec.is_root and spec.replay is None:
        _ = folder.lock  # checked before anything else of the worker is imported
    if spec.is_root and has_policy() and (unused := files.organisation.why_not_used()):
        notify("warning", unused)
    if closed:
        notify("warning", closed)
    if spec.is_root and spec.home is None and (file := untrusted_project(prepared.home, folder.workspace)):
        notify("warning", f"{file} ignored: you have not trusted this folder. Run: forge trust")
    model = choose_model(spec, folder, notify)
    if spec.parent is None or model.provider is not spec.parent.model.provider:
        stack.push_async_callback(close_model, model.provider)
    price = price_of(spec, settings, model)
    assembly = await assemble_worker(spec, folder, controller, stack, notify, delegate)
    loop = await make_loop(spec, folder, model, assembly, notify)
    if spec.is_root and (untrusted := folder.guidance(spec.guidance).untrusted):
        names = ", ".join(str(path) for path in untrusted)
        notify("info", f"{names} ignored: you have not trusted this folder. Run: forge trust")
    return OpenWorker(
        spec=spec, folder=folder, assembly=assembly, model=model, price=price, loop=loop, open_calls=open_calls
    )


async def assemble_worker(
    spec: RuntimeSpec,
    folder: PreparedFolder,
    controller: ApprovalController,
    stack: AsyncExitStack,
    notify: Notify,
    delegate: Delegate,
    before: Loop | None = None,
) -> Assembly:
    """The worker's tools and its gate, for a session; ``before`` is the loop that another takes over from."""
    redactor = before.redactor if before else folder.worker.redactor
    reopened = before.guard.judge.reopened if before else _reopened(spec, redactor)
    spare = temporary_folder(stack) if spec.replay and spec.replay.keeps_still else None
    assembler = Assembler(
        folder=folder,
        controller=controller,
        interrupt=spec.interrupt_signal,
        notify=notify,
        stack=stack,
        parent=spec.parent.assembly if spec.parent else None,
        make_zones=spare is None,
        spare=spare,
        open_changes=spec.session.open_changes if spec.session else None,
        added=spec.zones,
        read_only=spec.read_only,
        session=spec.session_id,
    )
    assembly = await assembler.assemble()
    guard = replace(
        assembly.guard,
        judge=replace(assembly.guard.judge, reopened=reopened),
        delegate=delegate,
        before_result=redactor.redact_ahead,
        sync_consent=spec.sync_consent,
        repeated=spec.replay,
    )
    return replace(assembly, guard=guard)


def _own_workspace(worker: Worker) -> Path | None:
    given = worker.sandbox
    return given.workspace if given is not None and isinstance(given, sandbox.files.sandbox.Sandbox) else None


def approval_mode_of(spec: RuntimeSpec, settings: Settings) -> ApprovalMode:
    """The mode of the program; else the strictest of what worker and user say, for a child of parent and worker."""
    own = spec.worker.config.approval.mode
    if spec.parent:
        return ApprovalMode.strictest(spec.parent.assembly.guard.controller.mode, own) or ApprovalMode.INTERACTIVE
    if spec.approval_mode is not None:
        return ApprovalMode(spec.approval_mode)
    return ApprovalMode.strictest(own, settings.approval.mode) or ApprovalMode.INTERACTIVE


def _listen(spec: RuntimeSpec, folder: PreparedFolder, stack: AsyncExitStack) -> OpenCalls:
    """The record hears everything first, then the program."""
    recorder = None

    def interrupt(event: Event) -> None:
        if isinstance(event, Interrupt):
            spec.interrupt_signal.interrupt(event.reason)

    more = folder.sinks(spec.session_id, spec.bus, repeated=spec.replay is not None) if spec.is_root else ()
    if sinks := (*spec.sinks, *more):
        recorder = Recorder(
            *sinks,
            session=spec.session_id,
            worker=spec.worker.name,
            depth=spec.depth,
            redactor=folder.worker.redactor,
            after=spec.resume.last if spec.resume else None,
        )
    open_calls = OpenCalls(recorder)
    if recorder or spec.is_root:
        stack.callback(spec.bus.subscribe(open_calls, transient=recorder is not None and recorder.shows))
    if spec.on_event:
        stack.callback(spec.bus.subscribe(spec.on_event))
    stack.callback(spec.bus.subscribe(interrupt, only=(Interrupt,)))
    if spec.is_root and spec.session and spec.session.log:
        _take_answers(spec.bus, spec.session.log.path, stack)
    return open_calls


def _take_answers(bus: EventBus, log: Path, stack: AsyncExitStack) -> None:
    """Give requests the answers that other processes leave; nothing of that is loaded before the first request."""

    def hear(event: Event) -> None:
        unsubscribe()
        stack.callback(record.answers.take_answers(bus, log, event))

    unsubscribe = bus.subscribe(hear, only=(ApprovalRequired,))
    stack.callback(unsubscribe)


async def close_model(provider: ModelProvider) -> None:
    try:
        await wait_within(CALL_LIMIT, "closing it", provider.aclose, of=provider.name)
    except Exception as error:  # third-party code
        raise ModelError(f"the model {provider.name} cannot be closed: {fault_text(error)}") from error


def price_of(spec: RuntimeSpec, settings: Settings, model: ChosenModel) -> LatePrice:
    """The price of the model; a limit of cost that could not be kept is refused, unless it is free."""
    price = LatePrice(model.provider.name, settings.options(model.provider.name))
    if spec.replay is None:
        above = spec.parent.budget if spec.parent else spec.pool
        inherited = [budget.limits for budget in above.chain] if above else []
        price.require([spec.limits, spec.worker.config.limits, *inherited], settings.limits)
    return price


async def make_loop(
    spec: RuntimeSpec,
    folder: PreparedFolder,
    model: ChosenModel,
    assembly: Assembly,
    notify: Notify,
    before: Loop | None = None,
) -> Loop:
    """The loop of a session, with the definitions that the model reads; a repeated one offers what was offered then.

    ``before`` is the loop that this one takes over from, with its history.
    """
    toolbox, guard, past = assembly.toolbox, assembly.guard, spec.past
    window, redactor = window_of(folder, model), before.redactor if before else folder.worker.redactor
    offered = OfferedTools(
        toolbox,
        ToolRoom.of(folder.settings.tool_share_of(spec.worker), window),
        known=before.offered.names if before else past.tools if past else (),
        recorded=spec.replay.tools if spec.replay else None,
        tell=partial(notify, "info"),
    )
    await offered.start()
    output = spec.stated_schema or wanted_output(spec.worker)
    environment, news = _environment(spec, assembly, folder, redactor, before)
    history = before.history if before else History(past.messages if past else (), redactor)
    context = Context(
        history=history,
        bus=spec.bus,
        window=window,
        counted=before.context.counted if before else past.counted if past else None,
    )
    loop = Loop(
        model=model.provider,
        toolbox=toolbox,
        offered=offered,
        guard=guard,
        bus=spec.bus,
        interrupt=spec.interrupt_signal,
        history=history,
        context=context,
        system=system_prompt(spec.worker, folder.guidance(spec.guidance).text, toolbox, output, environment),
        environment=environment,
        news=news,
        stop_on_refusal=spec.on_ask is OnAsk.FAIL and not guard.controller.attended,
        stop_on_failure=spec.worker.config.on_error == "stop",
        output=output,
        redactor=redactor,
    )
    return loop.taking_over(before) if before else loop


def window_of(folder: PreparedFolder, model: ChosenModel) -> int | None:
    return folder.settings.options(model.provider.name).context or model.provider.context_window


def _environment(
    spec: RuntimeSpec, assembly: Assembly, folder: PreparedFolder, redactor: Redactor, loop: Loop | None
) -> tuple[str | None, EnvironmentChange | None]:
    """The environment in the system prompt, and what has changed; a session keeps what it began with."""
    past, replay = spec.past, spec.replay
    before, last = (past.environment, past.last_environment) if past else (None, None)
    if loop:
        before, last = loop.environment, loop.last_environment_sent
    if replay:
        now = replay.environment or last
    else:
        now = environment_of(spec.worker, assembly.toolbox, assembly.guard.judge, git_branch(folder.workspace))
    if before is None or last is None or now is None:
        return now, None
    changes = describe_changes(redactor.redact_text(last), redactor.redact_text(now))
    return before, EnvironmentChange(changes, now) if changes else None


def _reopened(spec: RuntimeSpec, redactor: Redactor) -> ResumedCalls | None:
    parent = spec.parent.assembly.guard.judge.reopened if spec.parent else None
    if spec.past is None and parent is None:
        return None
    return engine.gate.resumed.ResumedCalls(spec.past, redactor.redact, parent)
