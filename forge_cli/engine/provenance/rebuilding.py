"""The words of a resumed session, taken from its record."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from forge_cli.core.actions import ApprovalResponse, ManualToolInvoke
from forge_cli.core.events import (
    ApprovalDecided,
    MessageEvent,
    NetworkAccess,
    ToolResult,
    ToolStarted,
)
from forge_cli.core.phrases import COMMAND_OF_USER
from forge_cli.core.results import for_model
from forge_cli.core.trial import CommandTried
from forge_cli.core.wire import JsonObject
from forge_cli.engine.provenance.provenance import WorkerProvenance
from forge_cli.engine.provenance.words import text_of
from forge_cli.record.line import BadLine

if TYPE_CHECKING:
    from forge_cli.engine.gate.judge import Judge
    from forge_cli.record.line import Line
    from forge_cli.record.open import OpenSession


def take_lines(judge: Judge, session: OpenSession) -> None:
    """Take the earlier lines of a resumed session.

    Only a proven approval counts, and in a copy of a session none does.
    """
    if not isinstance(judge.provenance, WorkerProvenance):
        return
    if session.log:
        void: Container[int] = session.log.proofs.unproven(session.lines)
    else:
        void = frozenset(line.seq for line in session.lines if line.is_consent)
    taking = RecordedWords(judge, judge.provenance, void)
    taking.take(session.lines)


class RecordedWords:
    """Takes the lines of a record in order."""

    def __init__(
        self, judge: Judge, provenance: WorkerProvenance, void: Container[int] = ()
    ) -> None:
        """Take the judge whose tools made the calls; approvals of ``void`` lines do not count."""
        self._judge = judge
        self._provenance = provenance
        self._void = void
        self._args: dict[tuple[str | None, str], JsonObject] = {}
        self._held: set[str] = set()

    def take(self, lines: Iterable[Line]) -> None:
        """Take lines; a damaged one is skipped."""
        for line in lines:
            try:
                self.take_line(line)
            except BadLine:
                continue

    def take_line(self, line: Line) -> None:
        """Take one line."""
        provenance = self._provenance
        event = line.event
        match event:
            case MessageEvent() if line.delegation is None and _is_of_person(event):
                typed = event.message.text.partition(COMMAND_OF_USER)[0]
                provenance.begin_task(typed, event.message.attachments)
            case ManualToolInvoke():
                provenance.typed(text_of(dict(event.args)))
            case ToolStarted():
                self._args[line.delegation, event.tool_call_id] = dict(event.args)
                if provenance.words.is_tainted:
                    provenance.words.write(text_of(dict(event.args)))
            case CommandTried() if event.outcome in ("noEffect", "effects"):
                self._held.add(event.tool_call_id)
            case NetworkAccess() if event.allowed and event.tool_call_id:
                provenance.words.reached.add(event.tool_call_id)
            case ToolResult() if event.status in ("success", "error", "timeout", "interrupted"):
                provenance.take_recorded(
                    self._judge.offers.get(event.tool_name),
                    event.tool_name,
                    self._args.get((line.delegation, event.tool_call_id), {}),
                    for_model(event.value),
                    event.tool_call_id,
                    held=event.tool_call_id in self._held,
                    line=line.seq,
                    time=line.time,
                )
            case ApprovalResponse() if event.decision.note and line.seq not in self._void:
                provenance.typed(event.decision.note)
            case ApprovalDecided() if event.approved and line.seq not in self._void:
                if event.grant is not None and event.grant.mine:
                    provenance.endorse(event.grant.mine)


def _is_of_person(event: MessageEvent) -> bool:
    message = event.message
    return (
        message.role == "user"
        and event.typed
        and event.environment is None
        and event.summary_of is None
        and message.summary is None
    )
