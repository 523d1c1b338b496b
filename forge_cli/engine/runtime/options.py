"""Options of a person for the sessions of a worker, whichever command they typed; and what is open with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge_cli.core.approval import ApprovalMode, OnAsk
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import UsageError
from forge_cli.core.zones import Zone
from forge_cli.files.settings import TraceLevel
from forge_cli.files.worker import Limits, Worker, load_worker

if TYPE_CHECKING:
    from forge_cli.core.bounds import ForcedEnd
    from forge_cli.core.messages import Attachment
    from forge_cli.engine.plugins.host import PluginHost
    from forge_cli.engine.runtime.result import WorkerResult
    from forge_cli.engine.runtime.runtime import WorkerRuntime
    from forge_cli.engine.runtime.wiring import Wiring
    from forge_cli.engine.turns.output import OutputSchema
    from forge_cli.record.open import OpenSession
    from forge_cli.record.recorder import Sink

Warn = Callable[[str], None]


def check_session_choice(resume: str | None, *, last: bool, fork: bool) -> None:
    """Raise a UsageError for options that contradict each other."""
    if resume is not None and last:
        raise UsageError("-c and -r contradict each other; keep one")
    if fork and not last and resume is None:
        raise UsageError("--fork copies a session: say which one with -r ID, or -c for the last one")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options as they were asked, understood and complete; ``worker`` is empty where none is named yet."""

    worker: str = ""
    """The path of its file."""
    named: str = ""
    """As it was typed."""
    model: str | None = None
    mode: ApprovalMode | None = None
    on_ask: OnAsk = OnAsk.DENY
    limits: Limits = field(default_factory=Limits)
    schema: OutputSchema | None = None
    workspace: Path = field(default_factory=Path.cwd)
    zones: tuple[Zone, ...] = ()
    plugins: bool = True
    read_only: bool = False
    locked: bool = False
    resume: str | None = None
    """The session to resume: its id, a part of it, or its path."""
    last: bool = False
    """Whether the last session of the worker is resumed."""
    fork: bool = False
    """Whether a copy of that session is resumed."""
    ephemeral: bool = False
    """Whether no session is written."""
    record: Path | None = None
    """A file that gets the lines of the session as well."""
    batch: str | None = None
    """The file of the results, which tells a batch from others."""
    attachments: tuple[Attachment, ...] = ()
    trace: TraceLevel = "quiet"
    interactive: bool = False

    @property
    def resumes(self) -> bool:
        return self.last or self.resume is not None

    def host(self, worker: Worker | None = None) -> PluginHost:
        """The plugins that may be used."""
        from forge_cli.engine.plugins.host import PluginHost

        return PluginHost(only=None if self.plugins else (), worker=worker)

    def runtime(
        self,
        worker: Worker,
        session: OpenSession,
        wiring: Wiring,
        *,
        workspace: Path | None = None,
        on_ask: OnAsk | None = None,
        **more: Any,
    ) -> WorkerRuntime:
        """The runtime of a session, for what was asked; ``more`` are other options of WorkerRuntime."""
        from forge_cli.engine.runtime.runtime import WorkerRuntime

        return WorkerRuntime(
            worker=worker,
            model=self.model,
            approval_mode=self.mode,
            workspace=workspace or self.workspace,
            on_ask=on_ask or self.on_ask,
            limits=self.limits,
            output_schema=self.schema,
            session=session,
            read_only=self.read_only,
            wiring=replace(wiring, zones=self.zones, locked=self.locked, batch=self.batch),
            **more,
        )

    @contextmanager
    def open(
        self, warn: Warn, bus: EventBus | None = None, *, worker: Worker | None = None, task: str | None = None
    ) -> Iterator[Opened]:
        """The worker with its session; ``warn`` gets what is not an error. With an empty ``task`` one must be left."""
        from forge_cli.record.open import open_session

        worker = worker or load_worker(self.worker)
        with open_session(
            worker,
            resume=self.resume,
            last=self.last,
            fork=self.fork,
            keep=not self.ephemeral,
            workspace=self.workspace,
            task=task,
            warn=warn,
        ) as session:
            yield Opened(self, worker, self.host(worker), bus or EventBus(), session, warn)


@dataclass
class Opened:
    """A worker with its session, its plugins and its events, and the runtime once there is one."""

    options: RunOptions
    worker: Worker
    host: PluginHost
    bus: EventBus
    session: OpenSession
    warn: Warn
    runtime: WorkerRuntime | None = None

    def make_runtime(
        self, *, sinks: Iterable[Sink | None] = (), replay: Any = None, guidance: bool | None = None, **more: Any
    ) -> WorkerRuntime:
        """The runtime for what was asked; ``more`` are other options of WorkerRuntime."""
        from forge_cli.engine.runtime.wiring import Wiring

        asked = self.options
        told = tuple(sink for sink in sinks if sink)
        if asked.record:
            from forge_cli.record.copy import RecordCopy

            told = (RecordCopy(asked.record, self.session.lines), *told)
        wiring = Wiring(host=self.host, sinks=told, replay=replay, guidance=guidance)
        self.runtime = asked.runtime(self.worker, self.session, wiring, on_ask=self._on_ask(), bus=self.bus, **more)
        return self.runtime

    def end_now(self, end: ForcedEnd) -> WorkerResult | None:
        """Put everything in order from another thread, because third-party code holds the process."""
        result = self.runtime.end_now(end) if self.runtime else None
        self.close_log()
        return result

    def close_log(self) -> None:
        if self.session.log:
            self.session.log.close()

    def _on_ask(self) -> OnAsk:
        """Nothing can wait where nothing is kept."""
        asked = self.options
        if asked.on_ask is not OnAsk.PARK or self.session.log is not None or asked.record is not None:
            return asked.on_ask
        self.warn("without a session nothing can be parked: calls that ask are denied")
        return OnAsk.DENY
