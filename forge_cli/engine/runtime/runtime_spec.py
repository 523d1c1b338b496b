"""The parts of a runtime: those that programs give, and those that only forge itself gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from forge_cli.engine.replay.replay import Replay
    from forge_cli.engine.runtime.open_worker import OpenWorker
    from forge_cli.engine.turns.limits import Budget
    from forge_cli.engine.turns.loop import Tally
    from forge_cli.engine.turns.output import OutputSchema
    from forge_cli.record.open import OpenSession
    from forge_cli.record.recorder import Sink
    from forge_cli.record.resume import Past, Resumed


@dataclass
class TaskAtHand:
    """The work that what servers ask of a session counts in; None until the worker has some."""

    work: tuple[ModelProvider, Tally, Budget] | None = None


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


@dataclass(frozen=True, kw_only=True)
class RuntimeSpec(Wiring):
    """All that one runtime is made of."""

    worker: Worker
    model: str | ModelProvider | None
    approval_mode: ApprovalMode | str | None
    approval_callback: ApprovalCallback | None
    on_event: Callable[[Event], None] | None
    interrupt: InterruptSignal
    depth: int
    bus: EventBus
    workspace: Path | None
    on_ask: OnAsk
    limits: Limits
    output_schema: OutputSchema | None
    resume: Resumed | None
    session: OpenSession | None = None
    """Its files; child workers have none of their own."""
    session_id: str
    read_only: bool = False

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
