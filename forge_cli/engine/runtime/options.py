"""The options of a command that runs a worker, which open its session and make its runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from forge_cli.core.approval import ApprovalMode, OnAsk, OnEnd
from forge_cli.core.errors import UsageError
from forge_cli.core.zones import Zone
from forge_cli.files.settings import TraceLevel
from forge_cli.files.worker import Limits, Worker

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus
    from forge_cli.core.events import Event
    from forge_cli.core.interrupt import InterruptSignal
    from forge_cli.core.messages import Attachment
    from forge_cli.engine.gate.controller import ApprovalCallback
    from forge_cli.engine.plugins.host import PluginHost
    from forge_cli.engine.replay.recording import Recording
    from forge_cli.engine.runtime.runtime import WorkerRuntime
    from forge_cli.engine.runtime.wiring import Wiring
    from forge_cli.engine.turns.output import OutputSchema
    from forge_cli.record.open import OpenSession
    from forge_cli.sandbox.drafts.link import DraftLink

Warn = Callable[[str], None]


def check_session_choice(resume: str | None, *, last: bool, fork: bool) -> None:
    """Raise UsageError for options that contradict each other."""
    if resume is not None and last:
        raise UsageError("-c and -r contradict each other; keep one")
    if fork and not last and resume is None:
        raise UsageError("--fork copies a session: name it with -r ID, or -c for the last one")


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """Several drafts of one task, and where the answer of one of them goes."""

    count: int
    out: TextIO
    file: Path | None
    """A copy of the answer."""
    is_data: bool
    """True if the output is for a program."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a command, parsed and complete; ``worker`` is empty until it is known."""

    worker: str = ""
    """The path of the worker's file."""
    named: str = ""
    """The worker as it was typed."""
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
    """The session to resume: its ID, the beginning of one, or its path."""
    last: bool = False
    """True to resume the last session of the worker."""
    fork: bool = False
    """True to resume a copy of the session."""
    new_id: str | None = None
    """The ID of the new session, if it is known before the session is opened."""
    ephemeral: bool = False
    """True to write no session."""
    record: Path | None = None
    """A file for a copy of the session's lines."""
    batch: str | None = None
    """The file of the results, which identifies a batch."""
    task: str = ""
    attachments: tuple[Attachment, ...] = ()
    recording: Recording | None = None
    """The record whose turns replace the model's."""
    trace: TraceLevel = "quiet"
    interactive: bool = False
    draft: bool = False
    """True if a new session works on a copy-on-write view of its zones."""
    on_end: OnEnd = OnEnd.KEEP
    """What happens to a draft when its session ends and no person is asked."""
    check: str = ""
    """The command that checks a draft at the end of its session."""
    attempts: Attempts | None = None
    """Several drafts of the task, of which the first that passes the check is offered."""
    goes_on: bool = False
    """True if a conversation continues after a command on its draft."""
    settled: Mapping[str, Any] | None = None
    """The changes that a conversation has just applied or dropped, for its record."""
    reviews_answer: bool = False
    """True if a review of the draft follows the answer to ``task`` in a conversation."""
    typed: bytes = b""
    """Input of a conversation that an earlier process has read already."""
    draft_link: DraftLink | None = None
    """The connection to the process outside of the draft, for a session in one."""

    @property
    def resumes(self) -> bool:
        """True if an earlier session is resumed."""
        return self.last or self.resume is not None

    def host(self, worker: Worker | None = None) -> PluginHost:
        """Return the host of the plugins that may be used."""
        from forge_cli.engine.plugins.host import PluginHost

        return PluginHost(only=None if self.plugins else (), worker=worker)

    def runtime(
        self,
        worker: Worker,
        session: OpenSession,
        wiring: Wiring,
        *,
        workspace: Path | None = None,
        bus: EventBus | None = None,
        interrupt_signal: InterruptSignal | None = None,
        approval_callback: ApprovalCallback | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> WorkerRuntime:
        """Return the runtime of a session; the arguments are options of WorkerRuntime."""
        from forge_cli.engine.runtime.runtime import WorkerRuntime

        if self.draft_link is not None:
            from forge_cli.sandbox.drafts.draft import backups_in

            # Backups of the view must not mix with those of the real files.
            session = replace(session, backups=backups_in(self.draft_link.place))
        sinks = wiring.sinks
        if self.record:
            from forge_cli.record.copy import RecordCopy

            sinks = (RecordCopy(self.record, session.lines), *sinks)
        return WorkerRuntime(
            worker=worker,
            model=self.model,
            approval_mode=self.mode,
            workspace=workspace or self.workspace,
            on_ask=OnAsk.DENY if self._cannot_park(session) else self.on_ask,
            limits=self.limits,
            output_schema=self.schema,
            session=session,
            read_only=self.read_only,
            bus=bus,
            interrupt_signal=interrupt_signal,
            approval_callback=approval_callback,
            on_event=on_event,
            wiring=replace(
                wiring,
                sinks=sinks,
                zones=self.zones,
                locked=self.locked,
                batch=self.batch,
                draft=self.draft_link,
            ),
        )

    @contextmanager
    def open_session(
        self, worker: Worker, warn: Warn, *, task: str | None = None
    ) -> Iterator[OpenSession]:
        """Open the session, and pass warnings to ``warn``.

        With an empty ``task``, the session must have unfinished work.
        """
        from forge_cli.record.open import open_session

        with open_session(
            worker,
            resume=self.resume,
            last=self.last,
            fork=self.fork,
            keep=not self.ephemeral,
            workspace=self.workspace,
            task=task,
            warn=warn,
            new_id=self.new_id,
        ) as session:
            if self._cannot_park(session):
                warn("nothing can be parked without a session: calls that ask are denied")
            yield session

    def _cannot_park(self, session: OpenSession) -> bool:
        """Return True if calls should be parked, but no session is written."""
        return self.on_ask is OnAsk.PARK and session.log is None and self.record is None
