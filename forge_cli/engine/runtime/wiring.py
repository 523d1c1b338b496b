"""Public options and internal wiring of a runtime, and the worker opened with them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from msgspec import Struct

from forge_cli.core.actions import CommandEvent, UserInput
from forge_cli.core.approval import ApprovalMode, OnAsk
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import UsageError
from forge_cli.core.events import Event, SessionStart
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import ModelProvider
from forge_cli.core.zones import Zone
from forge_cli.engine.gate.controller import ApprovalCallback
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.prepared import PreparedFolder, PreparedWorker
from forge_cli.files.worker import Limits, Worker

if TYPE_CHECKING:
    from forge_cli.engine.gate.guard import Guard
    from forge_cli.engine.gate.toolbox import Toolbox
    from forge_cli.engine.lock.checking import SessionLock
    from forge_cli.engine.organisation import Organisation
    from forge_cli.engine.provenance.index import SessionWords
    from forge_cli.engine.replay.replay import Replay
    from forge_cli.engine.runtime.announcements import OpenCalls
    from forge_cli.engine.runtime.model import ChosenModel, ModelPrice
    from forge_cli.engine.runtime.result import WorkerResult
    from forge_cli.engine.turns.limits import Budget
    from forge_cli.engine.turns.loop import Loop, Tally
    from forge_cli.engine.turns.output import OutputSchema
    from forge_cli.record.control import ControlSocket
    from forge_cli.record.open import OpenSession
    from forge_cli.record.recorder import Sink
    from forge_cli.record.resume import Past, Resumed
    from forge_cli.sandbox.drafts.link import DraftLink
    from forge_cli.sandbox.worker_processes import WorkerProcesses


class RuntimeOptions(TypedDict, total=False):
    """Public options of WorkerRuntime; None is the default of each."""

    model: str | ModelProvider | None
    approval_mode: ApprovalMode | str | None
    approval_callback: ApprovalCallback | None
    on_event: Callable[[Event], None] | None
    interrupt_signal: InterruptSignal | None
    depth: int
    bus: EventBus | None
    workspace: Path | str | None
    on_ask: OnAsk | str
    limits: Limits | None
    output_schema: OutputSchema | Mapping[str, Any] | None
    session: OpenSession | None
    """An open session, with the session that it resumes; child workers have none."""
    read_only: bool


Said = UserInput | CommandEvent
"""Input of a conversation."""


class ConversationHooks(TypedDict, total=False):
    """Functions that are called during a conversation."""

    on_begin: Callable[[], object]
    """Called when a task begins."""
    on_end: Callable[[WorkerResult | None], object]
    """Called when a task has ended, without a result if it raised an error."""
    on_done: Callable[[Said, WorkerResult | None], object]
    """Called with each handled input, and the result if the input was a task."""


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """All that the surrounding program gives a runtime, except the worker.

    Programs give the options in ``RuntimeOptions``. The rest is internal: the command line, a
    replay, a batch or a parent worker adds it.
    """

    # Options of programs.
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
    session: OpenSession | None = None
    """The session of the root; child workers have none."""
    read_only: bool = False

    # Added by forge itself.
    host: PluginHost = field(default_factory=PluginHost)
    prepared: PreparedWorker | None = None
    """The parts that many sessions of this worker share; its children have their own."""
    sinks: tuple[Sink, ...] = ()
    """Functions that get each line of the log."""
    control: ControlSocket | None = None
    """The socket of a session that other processes may watch from its first line on."""
    sync_consent: Callable[[], Awaitable[None]] | None = None
    """A function that waits until consent is stored durably, if the sinks do not."""
    session_id: str = ""
    """The session's ID; if empty, that of ``session`` or ``resume``, or a new one."""
    resume: Resumed | None = None
    """The past of a resumed session."""
    parent: OpenWorker | None = None
    """The parent of a child worker, which caps it."""
    replay: Replay | None = None
    """The recorded session that answers in place of a model."""
    zones: tuple[Zone, ...] = ()
    """Folders that the user adds to those of the worker."""
    home: Path | None = None
    """The folder to use instead of ``~/.forge``."""
    pool: Budget | None = None
    """The common budget of a batch's sessions."""
    batch: str | None = None
    guidance: bool | None = None
    """True if workers that leave it open get AGENTS.md; None depends on trust."""
    locked: bool = False
    """True if the worker has to match its lock even if it does not require one."""
    draft: DraftLink | None = None
    """The connection to the process outside of the draft, for a session in one."""
    can_begin_draft: bool = False
    """True if the program can continue the session in a new draft."""

    def completed(
        self,
        worker: Worker,
        resume: Resumed | None,
        options: RuntimeOptions,
        output_type: type[Any] | None = None,
    ) -> Wiring:
        """Return the wiring with a program's options, and with those of a resumed session."""
        from forge_cli.record.places import new_session_id

        known = RuntimeOptions.__annotations__
        for name in options.keys() - known.keys():
            raise TypeError(
                f"WorkerRuntime has no option {name!r}; they are {', '.join(known)}, output_type"
            )
        session = options.get("session")
        session_id = self.session_id
        sinks = self.sinks
        if session is not None:
            resume = session.resumed
            session_id = session.id
            sinks = (*session.sinks, *self.sinks)
        elif resume is not None and not session_id:
            session_id = resume.session_id or ""
        workspace = options.get("workspace")
        was_read_only = resume is not None and resume.read_only
        return replace(
            self,
            model=options.get("model"),
            approval_mode=options.get("approval_mode"),
            approval_callback=options.get("approval_callback"),
            on_event=options.get("on_event"),
            interrupt_signal=options.get("interrupt_signal") or InterruptSignal(),
            depth=options.get("depth") or 0,
            bus=options.get("bus") or EventBus(),
            workspace=None if workspace is None else Path(workspace),
            on_ask=OnAsk(options.get("on_ask") or OnAsk.DENY),
            limits=options.get("limits") or Limits(),
            output_schema=_output_of(options.get("output_schema"), output_type, worker),
            session=session,
            read_only=bool(options.get("read_only")) or was_read_only,
            host=self.host.beside(worker),
            sinks=sinks,
            session_id=session_id or new_session_id(),
            resume=resume,
        )

    def prepare(self, worker: Worker) -> PreparedWorker:
        """Return the parts that the worker's sessions share."""
        if self.prepared is not None and self.prepared.worker is worker:
            return self.prepared
        return PreparedWorker(worker, self.host, self.home, locked=self.locked)

    @property
    def is_root(self) -> bool:
        """True for a worker that no other worker has called."""
        return self.depth == 0

    @property
    def past(self) -> Past | None:
        """The past of the session that continues, or None."""
        return self.resume.past if self.resume else None

    @property
    def stated_schema(self) -> OutputSchema | None:
        """The program's schema, or else the one that an unfinished task was begun with."""
        if self.output_schema is not None or self.resume is None or not self.resume.past.unfinished:
            return self.output_schema
        before = self.resume.output_schema
        if before is None:
            return None
        from forge_cli.engine.turns.output import OutputSchema

        return OutputSchema(before)

    def required_by(self, organisation: Organisation | None) -> Wiring:
        """Return the wiring with the requirements of an organisation."""
        if organisation is None:
            return self
        on_ask, read_only = organisation.required(self.on_ask, self.read_only)
        return replace(self, on_ask=on_ask, read_only=read_only)


def _output_of(schema: Any, output_type: type[Any] | None, worker: Worker) -> OutputSchema | None:
    """Return the schema of the final answer from a program's options, or None."""
    if isinstance(schema, type):
        hint = f"write output_type={schema.__name__} for a type"
        raise UsageError("output_schema is a JSON Schema, not a type", hint=hint)
    if output_type is None:
        if isinstance(schema, Mapping):
            from forge_cli.engine.turns.output import OutputSchema

            return OutputSchema.load(schema, where=None, folder=worker.folder)
        return cast("OutputSchema | None", schema)
    if schema is not None:
        raise UsageError("output_schema and output_type exclude each other", hint="give one")
    from forge_cli.engine.turns.output_type import OutputType

    return OutputType.of(output_type)


class TaskAtHand(Struct):
    """The current task, in which requests of servers count; ``work`` may be None."""

    work: tuple[ModelProvider, Tally, Budget] | None = None


class Assembly(Struct, frozen=True):
    """The tools of a worker and its gate, which need no model."""

    toolbox: Toolbox
    guard: Guard
    at_hand: TaskAtHand
    open_processes: Callable[[], WorkerProcesses]
    lock: SessionLock | None = None
    words: SessionWords | None = None
    """The words of the session, which all its workers share."""


class OpenWorker(Struct, frozen=True, kw_only=True):
    """A worker with everything open, ready for its tasks."""

    wiring: Wiring
    folder: PreparedFolder
    assembly: Assembly
    model: ChosenModel
    price: ModelPrice
    loop: Loop
    open_calls: OpenCalls
    budget: Budget | None = None
    """The budget of the current task, which its children use as well."""

    def start_task(self, tally: Tally, budget: Budget) -> None:
        """Count requests of servers to the model in this task from now on."""
        if self.wiring.replay is None:  # a record has no such turns
            self.assembly.at_hand.work = self.model.provider, tally, budget

    def new_budget(self) -> Budget:
        """Return the budget of the next task."""
        from forge_cli.engine.turns.limits import Budget, stated

        own = self.worker.config.limits
        if parent := self.wiring.parent:
            return Budget(own, self.price, parent.budget, worker=self.worker.name)
        settings = self.folder.settings.limits
        limits = stated(self.wiring.limits, own, settings)
        day = None
        if settings.per_day:
            from forge_cli.engine.turns.limits import DayBudget
            from forge_cli.record.spent import DayLedger

            day = DayBudget(settings.per_day, DayLedger(self.folder.prepared.home))
        return Budget(limits, self.price, worker=self.worker.name, pool=self.wiring.pool, day=day)

    @property
    def worker(self) -> Worker:
        return self.folder.worker

    @property
    def workers(self) -> tuple[Worker, ...]:
        """The workers from the root down to this one."""
        above = self.wiring.parent.workers if self.wiring.parent else ()
        return (*above, self.worker)

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the workers from the root down to this one."""
        return tuple(worker.name for worker in self.workers)

    @property
    def zones(self) -> tuple[Mapping[str, Any], ...]:
        """The zones, as events describe them."""
        from forge_cli.engine.turns.environment import describe_zone

        return tuple(describe_zone(zone) for zone in self.assembly.guard.judge.worker.zones)

    @property
    def isolation(self) -> str:
        return self.assembly.guard.judge.worker.isolation.level.value

    def start(self) -> SessionStart:
        """Return the event that starts the session."""
        resume = self.wiring.resume
        schema = self.wiring.stated_schema
        return SessionStart(
            self.model.provider.name,
            str(self.folder.workspace),
            self.assembly.guard.controller.mode.value,
            worker_file=str(self.worker.path),
            resumed=resume.last.seq if resume and resume.last else None,
            forked_from=resume.forked_from if resume else None,
            output_schema=schema.json_schema if schema else None,
            title=resume.title if resume else None,
            batch=self.wiring.batch,
            zones=self.zones,
            isolation=self.isolation,
            read_only=self.wiring.read_only or None,
            guidance=tuple(map(str, self.folder.guidance(self.wiring.guidance).files)) or None,
            session=self.wiring.session_id,
            worker=self.worker.name,
        )
