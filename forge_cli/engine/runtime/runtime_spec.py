"""The parts of a runtime: those that programs give, and those that only forge itself gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from forge_cli import engine
from forge_cli.core.approval import ApprovalMode, OnAsk
from forge_cli.core.bus import EventBus
from forge_cli.core.events import Event
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import ModelProvider
from forge_cli.core.zones import Zone
from forge_cli.engine.gate.controller import ApprovalCallback
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.prepared import PreparedWorker
from forge_cli.files.worker import Limits, Worker
from forge_cli.record.places import new_session_id

if TYPE_CHECKING:
    from forge_cli.engine.organisation import Organisation
    from forge_cli.engine.replay.replay import Replay
    from forge_cli.engine.runtime.open_worker import OpenWorker
    from forge_cli.engine.turns.limits import Budget
    from forge_cli.engine.turns.output import OutputSchema
    from forge_cli.record.open import OpenSession
    from forge_cli.record.recorder import Sink
    from forge_cli.record.resume import Past, Resumed


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """The parts that the command line, a replay or a parent worker adds to a runtime; programs need none of it."""

    host: PluginHost = field(default_factory=PluginHost)
    prepared: PreparedWorker | None = None
    """Of a worker that has many sessions, what they share; its children have their own."""
    sinks: tuple[Sink, ...] = ()
    """Get each line of the record."""
    sync_consent: Callable[[], Awaitable[None]] | None = None
    """Waits until consent is where nothing loses it, where the sinks do not."""
    session_id: str | None = None
    parent: OpenWorker | None = None
    """The cap of a child worker; the root has no parent."""
    replay: Replay | None = None
    """The record of a session that is repeated: it is the model then, and no other is asked."""
    zones: tuple[Zone, ...] = ()
    """Folders that the user adds to those of the worker."""
    home: Path | None = None
    """The folder in place of ``~/.forge``, where it is not that of the user."""
    pool: Budget | None = None
    """The common budget of a batch's sessions."""
    batch: str | None = None
    guidance: bool | None = None
    """Whether AGENTS.md is told to workers that leave it open; None asks what is trusted."""
    locked: bool = False
    """Whether the worker has to match its lock, also if it does not require that itself."""


class RuntimeOptions(TypedDict, total=False):
    """The options that programs give a runtime; one that is None is as one that is not given."""

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


@dataclass(frozen=True, kw_only=True)
class RuntimeSpec(Wiring):
    """All that one runtime is made of."""

    worker: Worker
    resume: Resumed | None
    session_id: str
    read_only: bool
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

    @classmethod
    def of(cls, worker: Worker, resume: Resumed | None, wiring: Wiring, options: RuntimeOptions) -> RuntimeSpec:
        """The parts that were given, with what a resumed session says of them."""
        known = RuntimeOptions.__annotations__
        for name in options.keys() - known.keys():
            raise TypeError(f"WorkerRuntime has no option {name!r}; they are {', '.join(known)}")
        given = {each.name: getattr(wiring, each.name) for each in fields(Wiring)}
        given |= {name: value for name, value in options.items() if value is not None}
        given |= {name: read(given[name]) for name, read in (("workspace", Path), ("on_ask", OnAsk)) if name in given}
        given["host"] = wiring.host.beside(worker)
        if session := options.get("session"):
            resume = session.resumed
            given |= {"session_id": session.id, "sinks": (*session.sinks, *wiring.sinks)}
        if isinstance(schema := given.get("output_schema"), Mapping):
            given["output_schema"] = engine.turns.output.OutputSchema.load(schema, where=None, folder=worker.folder)
        given["session_id"] = given["session_id"] or (resume and resume.session_id) or new_session_id()
        given["read_only"] = given.get("read_only", False) or (resume is not None and resume.read_only)
        return cls(worker=worker, resume=resume, **given)

    def prepare(self) -> PreparedWorker:
        """The parts that the worker's sessions share."""
        if self.prepared is not None and self.prepared.worker is self.worker:
            return self.prepared
        return PreparedWorker(self.worker, self.host, self.home, locked=self.locked)

    @property
    def is_root(self) -> bool:
        return self.depth == 0

    @property
    def past(self) -> Past | None:
        return self.resume.past if self.resume else None

    @property
    def stated_schema(self) -> OutputSchema | None:
        """The schema that the program gives, else the one that an unfinished task was begun with."""
        before = self.resume.output_schema if self.resume and self.resume.past.unfinished else None
        return (
            engine.turns.output.OutputSchema(before)
            if self.output_schema is None and before is not None
            else self.output_schema
        )

    def required_by(self, organisation: Organisation | None) -> RuntimeSpec:
        """The session as an organisation wants it."""
        if organisation is None:
            return self
        on_ask, read_only = organisation.required(self.on_ask, self.read_only)
        return replace(self, on_ask=on_ask, read_only=read_only)
