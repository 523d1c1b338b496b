"""Opening a worker: the record, the approval mode, the model, the tools behind the gate, and the loop with them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge_cli import engine, files, sandbox
from forge_cli.core.approval import ApprovalMode, OnAsk
from forge_cli.core.bounds import CALL_LIMIT, fault_text, is_of_forge, wait_within
from forge_cli.core.errors import ModelError
from forge_cli.core.events import Event, Interrupt, SessionStart
from forge_cli.engine.gate.controller import ApprovalController
from forge_cli.engine.gate.offer import OfferedTools, ToolRoom
from forge_cli.engine.runtime.assemble import Assembler, Assembly, temporary_folder
from forge_cli.engine.runtime.closing import OpenCalls
from forge_cli.engine.runtime.model import ChosenModel, ModelChoice
from forge_cli.engine.runtime.surroundings import describe_zone, environment_of
from forge_cli.engine.turns.environment import describe_changes, system_prompt, wanted_output
from forge_cli.engine.turns.history import History
from forge_cli.engine.turns.limits import Budget, LatePrice, stated
from forge_cli.engine.turns.loop import EnvironmentNews, Loop, Tally
from forge_cli.engine.turns.window import Context
from forge_cli.files.settings import has_policy
from forge_cli.record.recorder import Recorder

if TYPE_CHECKING:
    from forge_cli.core.messages import ModelProvider
    from forge_cli.core.notify import Notify
    from forge_cli.engine.gate.consent import ReopenedCalls
    from forge_cli.engine.gate.guard import Delegate
    from forge_cli.engine.lock.checking import SessionLock
    from forge_cli.engine.runtime.delegation import Parent
    from forge_cli.engine.runtime.prepared import PreparedFolder
    from forge_cli.engine.runtime.wiring import RuntimeSpec, TaskAtHand
    from forge_cli.files.repository import Guidance
    from forge_cli.files.settings import Settings
    from forge_cli.files.worker import Worker
    from forge_cli.sandbox.secrets import Redactor


@dataclass(frozen=True, kw_only=True)
class OpenWorker:
    """A worker with everything open, ready for its tasks."""

    spec: RuntimeSpec
    workspace: Path
    settings: Settings
    controller: ApprovalController
    model: ChosenModel
    price: LatePrice
    loop: Loop
    guidance: Guidance
    open_calls: OpenCalls
    at_hand: TaskAtHand
    lock: SessionLock | None

    def start_task(self, tally: Tally, budget: Budget) -> None:
        """Count what servers have the model answer from now on in this task."""
        if self.spec.wiring.replay is None:  # the record has no such turns
            self.at_hand.work = self.model.provider, tally, budget

    def new_budget(self) -> Budget:
        """The budget of the next task."""
        spec, own = self.spec, self.spec.worker.config.limits
        limits = own if spec.parent else stated(spec.limits, own, self.settings.limits)
        parent, pool = (spec.parent.budget, None) if spec.parent else (None, spec.wiring.pool)
        return Budget(limits, self.price, parent, worker=spec.worker.name, pool=pool)

    def as_parent(self, budget: Budget | None = None) -> Parent:
        """The budget of the children of a task with this budget, or of a call that belongs to no task."""
        spec, loop = self.spec, self.loop
        return engine.runtime.delegation.Parent(
            workers=(*(spec.parent.workers if spec.parent else ()), spec.worker),
            session_id=spec.session_id,
            bus=spec.bus,
            interrupt=spec.interrupt,
            redact=loop.redactor.redact,
            assembly=Assembly(loop.toolbox, loop.guard, self.at_hand, self.lock),
            controller=self.controller,
            budget=budget or self.new_budget(),
            model=self.model,
            replay=spec.wiring.replay,
        )

    @property
    def zones(self) -> tuple[Mapping[str, Any], ...]:
        """The zones, as events tell them."""
        return tuple(describe_zone(zone) for zone in self.loop.guard.judge.late_sandbox.zones)

    @property
    def isolation(self) -> str:
        return self.loop.guard.judge.late_sandbox.isolation.level.value

    def start(self) -> SessionStart:
        resume, schema = self.spec.resume, self.spec.stated_schema
        return SessionStart(
            self.model.provider.name,
            str(self.workspace),
            self.controller.mode.value,
            worker_file=str(self.spec.worker.path),
            resumed=resume.last.seq if resume and resume.last else None,
            forked_from=resume.forked_from if resume else None,
            output_schema=schema.json_schema if schema else None,
            title=resume.title if resume else None,
            batch=self.spec.wiring.batch,
            zones=self.zones,
            isolation=self.isolation,
            read_only=self.spec.read_only or None,
            guidance=tuple(map(str, self.guidance.files)) or None,
            session=self.spec.session_id,
            worker=self.spec.worker.name,
        )


async def open_worker(spec: RuntimeSpec, stack: AsyncExitStack, notify: Notify, delegate: Delegate) -> OpenWorker:
    """Open everything that the worker names; ``stack`` closes it."""
    prepared = spec.prepare()
    folder = prepared.within(spec.workspace or _own_workspace(spec.worker) or Path.cwd())
    workspace, settings, redactor = folder.workspace, folder.settings, prepared.redactor
    spec = folder.organisation.applied(spec) if folder.organisation else spec
    closed = prepared.home_warning if spec.is_root else None
    controller = ApprovalController(
        approval_mode_of(spec, settings),
        spec.approval_callback,
        bus=spec.bus,
        parks=spec.on_ask is OnAsk.PARK,
        parent=spec.parent.controller if spec.parent else None,
    )
    open_calls = _listen(spec, folder, redactor, stack)
    if spec.is_root and spec.wiring.replay is None:
        _ = folder.lock  # checked before anything else of the worker is imported
    if spec.is_root and has_policy() and (unused := files.organisation.why_not_used()):
        notify("warning", unused)
    if closed:
        notify("warning", closed)
    if spec.is_root and spec.wiring.home is None and (file := folder.untrusted_project):
        notify("warning", f"{file} ignored: you have not trusted this folder. Run: forge trust")
    model = choose_model(spec, settings, (workspace, Path.cwd()), notify)
    if spec.parent is None or model.provider is not spec.parent.model.provider:
        stack.push_async_callback(close_model, model.provider)
    price = price_of(spec, settings, model)
    assembly = await assemble_worker(spec, folder, controller, stack, notify)
    window = window_of(settings, model.provider)
    offered = await offer_tools(spec, settings, window, assembly, notify, spec.past.tools if spec.past else ())
    guidance = folder.guidance(spec.wiring.guidance)
    if spec.is_root and guidance.untrusted:
        names = ", ".join(str(path) for path in guidance.untrusted)
        notify("info", f"{names} ignored: you have not trusted this folder. Run: forge trust")
    return OpenWorker(
        spec=spec,
        workspace=workspace,
        settings=settings,
        controller=controller,
        model=model,
        price=price,
        loop=make_loop(spec, folder, window, model, assembly, offered, redactor, delegate),
        guidance=guidance,
        open_calls=open_calls,
        at_hand=assembly.at_hand,
        lock=assembly.lock,
    )


async def assemble_worker(
    spec: RuntimeSpec,
    folder: PreparedFolder,
    controller: ApprovalController,
    stack: AsyncExitStack,
    notify: Notify,
) -> Assembly:
    spare = _spare_folder(spec, stack)
    assembler = Assembler(
        folder=folder,
        controller=controller,
        interrupt=spec.interrupt,
        notify=notify,
        stack=stack,
        parent=spec.parent.assembly if spec.parent else None,
        make_zones=spare is None,
        spare=spare,
        open_changes=spec.wiring.open_changes,
        added=spec.wiring.zones,
        read_only=spec.read_only,
        session=spec.session_id,
    )
    return await assembler.assemble()


def _own_workspace(worker: Worker) -> Path | None:
    given = worker.sandbox
    return given.workspace if given is not None and isinstance(given, sandbox.files.sandbox.Sandbox) else None


def approval_mode_of(spec: RuntimeSpec, settings: Settings) -> ApprovalMode:
    """The mode of the program; else the strictest of what worker and user say, for a child of parent and worker."""
    own = spec.worker.config.approval.mode
    if spec.parent:
        return ApprovalMode.strictest(spec.parent.controller.mode, own) or ApprovalMode.INTERACTIVE
    if spec.approval_mode is not None:
        return ApprovalMode(spec.approval_mode)
    return ApprovalMode.strictest(own, settings.approval.mode) or ApprovalMode.INTERACTIVE


def _listen(spec: RuntimeSpec, folder: PreparedFolder, redactor: Redactor, stack: AsyncExitStack) -> OpenCalls:
    """The record hears everything first, then the program."""
    recorder = None

    def obey(event: Event) -> None:
        if isinstance(event, Interrupt):
            spec.interrupt.interrupt(event.reason)

    more = folder.sinks(spec.session_id, spec.bus, repeated=spec.wiring.replay is not None) if spec.is_root else ()
    if sinks := (*spec.wiring.sinks, *more):
        recorder = Recorder(
            session=spec.session_id,
            worker=spec.worker.name,
            depth=spec.depth,
            redactor=redactor,
            after=spec.resume.last if spec.resume else None,
        )
        for sink in sinks:
            recorder.add_sink(sink)
    open_calls = OpenCalls(recorder)
    if recorder or spec.is_root:
        stack.callback(spec.bus.subscribe(open_calls, transient=recorder is not None and recorder.shows))
    if spec.on_event:
        stack.callback(spec.bus.subscribe(spec.on_event))
    stack.callback(spec.bus.subscribe(obey, only=(Interrupt,)))
    return open_calls


def choose_model(spec: RuntimeSpec, settings: Settings, folders: tuple[Path, ...], notify: Notify) -> ChosenModel:
    if replay := spec.wiring.replay:
        if spec.is_root:
            notify("info", replay.announcement)
        return ChosenModel(replay)
    choice = ModelChoice(worker=spec.worker, folders=folders, settings=settings, host=spec.wiring.host, notify=notify)
    earlier, given = spec.resume.model if spec.resume else None, spec.model
    if given is None and spec.resume:
        given = spec.resume.chosen_model
    return choice.choose(given, spec.parent.model if spec.parent else None, earlier)


async def close_model(provider: ModelProvider) -> None:
    try:
        if is_of_forge(provider):
            await provider.aclose()
        else:
            await wait_within(CALL_LIMIT, "closing it", provider.aclose, of=provider.name)
    except Exception as error:  # third-party code
        raise ModelError(f"the model {provider.name} cannot be closed: {fault_text(error)}") from error


def price_of(spec: RuntimeSpec, settings: Settings, model: ChosenModel) -> LatePrice:
    """The price of the model; a limit of cost that could not be kept is refused, unless it is free."""
    price = LatePrice(model.provider.name, settings.options(model.provider.name))
    if spec.wiring.replay is None:
        above = spec.parent.budget if spec.parent else spec.wiring.pool
        inherited = [budget.limits for budget in above.chain] if above else []
        price.require([spec.limits, spec.worker.config.limits, *inherited], settings.limits)
    return price


def _spare_folder(spec: RuntimeSpec, stack: AsyncExitStack) -> Path | None:
    """The folder in which a replay that must not change anything makes missing zones."""
    if spec.wiring.replay is None or not spec.wiring.replay.keeps_still:
        return None
    return temporary_folder(stack)


async def offer_tools(
    spec: RuntimeSpec,
    settings: Settings,
    window: int | None,
    assembly: Assembly,
    notify: Notify,
    known: Sequence[str],
) -> OfferedTools:
    """Which definitions the model reads; ``known`` are those that it has read in this session.

    A session that is repeated offers what was offered then.
    """
    offered = OfferedTools(
        assembly.toolbox,
        ToolRoom.of(settings.tool_share_of(spec.worker), window),
        known=known,
        recorded=spec.wiring.replay.tools if spec.wiring.replay else None,
        tell=partial(notify, "info"),
    )
    await offered.start()
    return offered


def make_loop(
    spec: RuntimeSpec,
    folder: PreparedFolder,
    window: int | None,
    model: ChosenModel,
    assembly: Assembly,
    offered: OfferedTools,
    redactor: Redactor,
    delegate: Delegate,
    before: Loop | None = None,
) -> Loop:
    """``before`` is the loop that this one takes over from, with its history."""
    toolbox, provider, past = assembly.toolbox, model.provider, spec.past
    reopened = before.guard.judge.reopened if before else _reopened(spec, redactor)
    guard = replace(
        assembly.guard,
        judge=replace(assembly.guard.judge, reopened=reopened),
        delegate=delegate,
        before_result=redactor.redact_ahead,
        keep_consent=spec.wiring.keep_consent,
        repeated=spec.wiring.replay,
    )
    output = spec.stated_schema or wanted_output(spec.worker)
    environment, news = _environment(spec, assembly, folder, redactor, before)
    guidance = folder.guidance(spec.wiring.guidance)
    history = before.history if before else History(past.messages if past else (), redactor)
    context = Context(
        history=history,
        bus=spec.bus,
        window=window,
        counted=before.context.counted if before else past.counted if past else None,
    )
    loop = Loop(
        model=provider,
        toolbox=toolbox,
        offered=offered,
        guard=guard,
        bus=spec.bus,
        interrupt=spec.interrupt,
        history=history,
        context=context,
        system=system_prompt(spec.worker, guidance.text, toolbox, output, environment),
        environment=environment,
        news=news,
        stop_on_refusal=spec.on_ask is OnAsk.FAIL and not guard.controller.attended,
        stop_on_failure=spec.worker.config.on_error == "stop",
        output=output,
        redactor=redactor,
    )
    return loop.taking_over(before) if before else loop


def window_of(settings: Settings, provider: ModelProvider) -> int | None:
    return settings.options(provider.name).context or provider.context_window


def _environment(
    spec: RuntimeSpec, assembly: Assembly, folder: PreparedFolder, redactor: Redactor, loop: Loop | None
) -> tuple[str | None, EnvironmentNews | None]:
    """The environment in the system prompt, and what has changed; a session keeps what it began with."""
    past, replay = spec.past, spec.wiring.replay
    before, last = (past.environment, past.last_environment) if past else (None, None)
    if loop:
        before, last = loop.environment, loop.told_environment
    if replay:
        now = replay.environment or last
    else:
        now = environment_of(spec.worker, assembly, folder.branch)
    if before is None or last is None or now is None:
        return now, None
    changes = describe_changes(redactor.redact_text(last), redactor.redact_text(now))
    return before, EnvironmentNews(changes, now) if changes else None


def _reopened(spec: RuntimeSpec, redactor: Redactor) -> ReopenedCalls | None:
    parent = spec.parent.assembly.guard.judge.reopened if spec.parent else None
    if spec.past is None and parent is None:
        return None
    return engine.gate.consent.ReopenedCalls.of(spec.past, redactor.redact, parent)
