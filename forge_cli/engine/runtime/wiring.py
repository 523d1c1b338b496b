"""The public options and the internal wiring of a runtime, and the worker that is opened with them."""

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
    from forge_cli.engine.replay.replay import Replay
    from forge_cli.engine.runtime.announcements import OpenCalls
    from forge_cli.engine.runtime.model import ChosenModel, ModelPrice
    from forge_cli.engine.runtime.result import WorkerResult
    from forge_cli.engine.turns.limits import Budget
    from forge_cli.engine.turns.loop import Loop, Tally
    from forge_cli.engine.turns.output import OutputSchema
    from forge_cli.record.open import OpenSession
    from forge_cli.record.recorder import Sink
    from forge_cli.record.resume import Past, Resumed


class RuntimeOptions(TypedDict, total=False):
    """The options of WorkerRuntime for programs; None stands for the default."""

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
    """Its files, and what it resumes; child workers have none of their own."""
    read_only: bool


Said = UserInput | CommandEvent
"""Input of a conversation."""


class ConversationHooks(TypedDict, total=False):
    """Functions that hear how a conversation goes."""

    on_begin: Callable[[], object]
    """A task is taken up."""
    on_end: Callable[[WorkerResult | None], object]
    """It has ended; without a result where it raised."""
    on_done: Callable[[Said, WorkerResult | None], object]
    """Gets what was dealt with, and how that ended where it was work for the model."""


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """All that the program around a runtime gives it, but the worker.

    Programs give the part that ``RuntimeOptions`` lists. The rest is internal: the command line, a replay, a batch or a
    parent worker adds it.
    """

    # what programs give
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
    """The session of the root; child workers have none of their own."""
    read_only: bool = False

    # what forge adds
    host: PluginHost = field(default_factory=PluginHost)
    prepared: PreparedWorker | None = None
    """What the sessions of this worker share, if it has many; its children have their own."""
    sinks: tuple[Sink, ...] = ()
    """Get each line of the record."""
    sync_consent: Callable[[], Awaitable[None]] | None = None
    """Waits until consent is stored durably, if the sinks do not."""
    session_id: str = ""
    """The session's id; if it is empty, that of ``session``, of ``resume`` or a new one."""
    resume: Resumed | None = None
    """What a resumed session did before."""
    parent: OpenWorker | None = None
    """The cap of a child worker; the root has no parent."""
    replay: Replay | None = None
    """The recorded session that is repeated: it answers in place of a model."""
    zones: tuple[Zone, ...] = ()
    """Folders that the user adds to those of the worker."""
    home: Path | None = None
    """The folder to use instead of ``~/.forge``."""
    pool: Budget | None = None
    """The common budget of a batch's sessions."""
    batch: str | None = None
    guidance: bool | None = None
    """Whether workers that leave it open get AGENTS.md; None asks what is trusted."""
    locked: bool = False
    """Whether the worker has to match its lock, also if it does not require that itself."""

    def completed(
        self,
        worker: Worker,
        resume: Resumed | None,
        options: RuntimeOptions,
        output_type: type[Any] | None = None,
    ) -> Wiring:
        """Return the same with the options of a program, and with what a resumed session says of them."""
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
        """Return True for a worker that no other one has called."""
        return self.depth == 0

    @property
    def past(self) -> Past | None:
        """What the session that goes on has said and done."""
        return self.resume.past if self.resume else None

    @property
    def stated_schema(self) -> OutputSchema | None:
        """The schema that the program gives, else the one that an unfinished task was begun with."""
        if self.output_schema is not None or self.resume is None or not self.resume.past.unfinished:
            return self.output_schema
        before = self.resume.output_schema
        if before is None:
            return None
        from forge_cli.engine.turns.output import OutputSchema

        return OutputSchema(before)

    def required_by(self, organisation: Organisation | None) -> Wiring:
        """Return the same as an organisation requires it."""
        if organisation is None:
            return self
        on_ask, read_only = organisation.required(self.on_ask, self.read_only)
        return replace(self, on_ask=on_ask, read_only=read_only)


def _output_of(schema: Any, output_type: type[Any] | None, worker: Worker) -> OutputSchema | None:
    """Return what the final answer has to fit, as a program says it."""
    if isinstance(schema, type):
        raise UsageError(
            "output_schema is a JSON Schema", hint=f"write output_type={schema.__name__} for a type"
        )
    if output_type is None:
        if isinstance(schema, Mapping):
            from forge_cli.engine.turns.output import OutputSchema

            return OutputSchema.load(schema, where=None, folder=worker.folder)
        return cast("OutputSchema | None", schema)
    if schema is not None:
        raise UsageError(
            "output_schema and output_type both say what the answer has to fit",
            hint="give one of them",
        )
    from forge_cli.engine.turns.output_type import OutputType

    return OutputType.of(output_type)


class TaskAtHand(Struct):
    """The task that the requests of servers count in; ``work`` is None until there is one."""

    work: tuple[ModelProvider, Tally, Budget] | None = None


class Assembly(Struct, frozen=True):
    """The tools of a worker and the gate before them: what is open without a model."""

    toolbox: Toolbox
    guard: Guard
    at_hand: TaskAtHand
    lock: SessionLock | None = None


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
    """The budget of the task at hand, which its children use as well."""

    def start_task(self, tally: Tally, budget: Budget) -> None:
        """Count what servers have the model answer from now on in this task."""
        if self.wiring.replay is None:  # the record has no such turns
            self.assembly.at_hand.work = self.model.provider, tally, budget

    def new_budget(self) -> Budget:
        """The budget of the next task."""
        from forge_cli.engine.turns.limits import Budget, stated

        own = self.worker.config.limits
        if parent := self.wiring.parent:
            return Budget(own, self.price, parent.budget, worker=self.worker.name)
        limits = stated(self.wiring.limits, own, self.folder.settings.limits)
        return Budget(limits, self.price, worker=self.worker.name, pool=self.wiring.pool)

    @property
    def worker(self) -> Worker:
        return self.folder.worker

    @property
    def workers(self) -> tuple[Worker, ...]:
        """From the root down to this one."""
        above = self.wiring.parent.workers if self.wiring.parent else ()
        return (*above, self.worker)

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the workers from the root down to this one."""
        return tuple(worker.name for worker in self.workers)

    @property
    def zones(self) -> tuple[Mapping[str, Any], ...]:
        """The zones, as events tell them."""
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
