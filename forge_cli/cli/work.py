"""What commands that run a worker are told alike, and the worker that ``run`` and ``chat`` open with it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from forge_cli.cli.record import RecordFile
from forge_cli.cli.session import SessionChoice
from forge_cli.core.approval import ApprovalMode, OnAsk
from forge_cli.core.bus import EventBus
from forge_cli.core.messages import Attachment
from forge_cli.core.values import dataclass
from forge_cli.core.zones import Zone
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.engine.runtime.wiring import Wiring
from forge_cli.files.home import forge_home
from forge_cli.files.settings import TraceLevel, load_settings
from forge_cli.files.worker import Limits, Worker
from forge_cli.record.open import OpenSession
from forge_cli.record.recorder import Sink

RuntimeT = TypeVar("RuntimeT", bound=WorkerRuntime)


def more_than_nothing(limit: float | None) -> float | None:
    if limit is not None and not 0 < limit < math.inf:
        raise typer.BadParameter("must be a number greater than 0")
    return limit


ModelOption = Annotated[
    str | None,
    typer.Option("-m", "--model", metavar="PROVIDER:MODEL", help="Wins over the worker's model and FORGE_MODEL."),
]
ModeOption = Annotated[ApprovalMode | None, typer.Option("--approval-mode", help="Who answers when a call asks.")]
YesOption = Annotated[
    bool, typer.Option("-y", help="The same as --approval-mode approve_all; what is blocked stays blocked.")
]
OnAskOption = Annotated[OnAsk, typer.Option("--on-ask", help="What an ask means when nobody can be asked.")]
ContinueOption = Annotated[
    bool, typer.Option("-c", "--continue", help="Resume the worker's last session in this folder.")
]
ResumeOption = Annotated[str | None, typer.Option("-r", "--resume", metavar="ID", help="Resume this session.")]
ForkOption = Annotated[bool, typer.Option("--fork", help="Leave that session alone and resume a copy of it.")]
EphemeralOption = Annotated[bool, typer.Option("--ephemeral", help="Write no session.")]
TraceOption = Annotated[TraceLevel | None, typer.Option("--trace", help="How much to tell on standard error.")]
MaxTurnsOption = Annotated[
    int | None, typer.Option("--max-turns", metavar="N", min=1, help="Stop after N turns of the model.")
]
MaxTokensOption = Annotated[
    int | None, typer.Option("--max-tokens", metavar="N", min=1, help="Stop after N tokens, in and out.")
]
MaxCostOption = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="USD", callback=more_than_nothing, help="Stop when this much is spent."),
]
MaxTimeOption = Annotated[
    float | None,
    typer.Option("--max-time", metavar="SECONDS", callback=more_than_nothing, help="Stop after this time."),
]
AttachOption = Annotated[
    list[Path] | None,
    typer.Option("--attach", metavar="FILE", help="Give a text, an image or a PDF along with the task."),
]
RecordOption = Annotated[
    Path | None, typer.Option("--record", metavar="FILE", help="Write the lines of this session to FILE as well.")
]
NoPluginsOption = Annotated[bool, typer.Option("--no-plugins", help="Use nothing but what comes with forge.")]
AddDirOption = Annotated[
    list[str] | None,
    typer.Option("--add-dir", metavar="DIR[:ro]", help="Add a folder as a zone of its name; :ro is read-only."),
]


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the command line asked for, understood and complete."""

    worker: str
    """The path of its file."""
    named: str
    """As it was typed."""
    model: str | None
    mode: ApprovalMode | None
    on_ask: OnAsk
    trace: TraceLevel
    interactive: bool
    limits: Limits
    session: SessionChoice
    workspace: Path
    zones: tuple[Zone, ...]
    attachments: tuple[Attachment, ...]
    record: Path | None
    plugins: bool

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
        **more: Any,
    ) -> RuntimeT:
        """The runtime for all of this; ``more`` are other options of WorkerRuntime."""
        kept = RecordFile(self.record, session.lines) if self.record else None
        return kind(
            worker=worker,
            model=self.model,
            approval_mode=self.mode,
            bus=bus,
            workspace=self.workspace,
            on_ask=self._on_ask(session),
            limits=self.limits,
            session=session,
            wiring=Wiring(
                host=host, sinks=tuple(sink for sink in (kept, *sinks) if sink), replay=replay, zones=self.zones
            ),
            **more,
        )

    def _on_ask(self, session: OpenSession) -> OnAsk:
        """Nothing can wait where nothing is kept."""
        if self.on_ask is not OnAsk.PARK or session.log is not None or self.record is not None:
            return self.on_ask
        sys.stderr.write("forge: without a session nothing can be parked: calls that ask are denied\n")
        return OnAsk.DENY


def find_trace(flag: TraceLevel | None, print_only: bool, workspace: Path) -> TraceLevel:
    """A flag wins, ``-p`` is quiet, then the config; otherwise as much as a terminal wants."""
    stated = flag or ("quiet" if print_only else load_settings(forge_home(), workspace).trace)
    return stated or ("normal" if sys.stderr.isatty() else "summary")
