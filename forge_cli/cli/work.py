"""What the options of ``run``, ``chat`` and ``web`` ask for, and the worker that is opened with it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from forge_cli import cli
from forge_cli.cli.session import SessionChoice
from forge_cli.cli.work_options import AskedWork
from forge_cli.core.approval import OnAsk
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ExitCode, ForgeError
from forge_cli.core.messages import Attachment
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.engine.runtime.wiring import Wiring
from forge_cli.files.settings import TraceLevel
from forge_cli.files.worker import Worker
from forge_cli.process.signals import in_loop
from forge_cli.record.open import OpenSession
from forge_cli.record.recorder import Sink

RuntimeT = TypeVar("RuntimeT", bound=WorkerRuntime)


@dataclass(frozen=True, kw_only=True)
class Work(AskedWork):
    """What the command line asked for, understood and complete."""

    trace: TraceLevel = "quiet"
    interactive: bool = False
    session: SessionChoice = field(default_factory=SessionChoice)
    attachments: tuple[Attachment, ...] = ()
    record: Path | None = None

    def resume_command(self, command: str, session_id: str) -> str:
        """What to type to resume a session as it was started: in its folder, with its model, no freer than before."""
        argv = ["forge", command, self.named, "-r", session_id]
        if self.workspace != Path.cwd().resolve():
            argv += ["-C", str(self.workspace)]
        if self.model is not None:
            argv += ["-m", self.model]
        kept = {"--read-only": self.read_only, "--locked": self.locked}
        return shlex.join([*argv, *(flag for flag, given in kept.items() if given)])

    def open_runtime(
        self,
        kind: type[RuntimeT],
        worker: Worker,
        host: PluginHost,
        bus: EventBus,
        session: OpenSession,
        *,
        sinks: Iterable[Sink | None] = (),
        replay: Any = None,
        guidance: bool | None = None,
        **more: Any,
    ) -> RuntimeT:
        """The runtime for all of this; ``more`` are other options of WorkerRuntime."""
        kept = cli.record.RecordFile(self.record, session.lines) if self.record else None
        return kind(
            worker=worker,
            model=self.model,
            approval_mode=self.mode,
            bus=bus,
            workspace=self.workspace,
            on_ask=self._on_ask(session),
            limits=self.limits,
            session=session,
            read_only=self.read_only,
            wiring=Wiring(
                host=host,
                sinks=tuple(sink for sink in (kept, *sinks) if sink),
                replay=replay,
                zones=self.zones,
                guidance=guidance,
                locked=self.locked,
            ),
            **more,
        )

    def _on_ask(self, session: OpenSession) -> OnAsk:
        """Nothing can wait where nothing is kept."""
        if self.on_ask is not OnAsk.PARK or session.log is not None or self.record is not None:
            return self.on_ask
        sys.stderr.write("forge: without a session nothing can be parked: calls that ask are denied\n")
        return OnAsk.DENY


def carried_out(work: Work, function: Callable[..., Awaitable[ExitCode]], *args: Any) -> ExitCode:
    """Carry work out; where its lock differs, the person is asked whether that goes into the lock."""
    while True:
        try:
            return in_loop(function, work, *args)
        except (ForgeError, ExceptionGroup) as error:
            if not work.interactive or not cli.locking.is_taken_over(error, work.workspace):
                raise
