"""The gate for calls that another program makes: it judges each call, and can record it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import Approval, ApprovalDecision, ApprovalMode
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.events import (
    OTHER_TOOLS,
    Event,
    SessionEnd,
    SessionStart,
    SessionUpdate,
    ToolResult,
    ToolStarted,
)
from forge_cli.core.results import Text
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.answer import outlook_of, refused
from forge_cli.engine.gate.guard import Guard
from forge_cli.engine.gate.outlook import VerdictAnswer
from forge_cli.engine.gate.steps import Caller, Judged, Refusal
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import file_stamp
from forge_cli.engine.runtime.prepared import PreparedWorker, protected_files
from forge_cli.engine.runtime.result import Ending, WorkerResult
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.home import POLICY, POLICY_VARIABLE, forge_home
from forge_cli.files.settings_files import project_file
from forge_cli.files.worker import Worker
from forge_cli.record.open import open_session
from forge_cli.record.recorder import Recorder
from forge_cli.sandbox.secrets import own_redactor

Note = Callable[[Event], None]


@asynccontextmanager
async def open_gate(
    worker: Worker, *, workspace: Path, maker: str | None = None
) -> AsyncIterator[Gate]:
    """Open the gate of a worker whose calls another program makes.

    It answers as ``forge approve`` does. Nothing is executed, no model is asked and no zone is
    made. Plugins run in this process, as when the worker runs. With ``maker``, the program that
    makes the calls, each call is recorded in a session, and the worker has to match its lock if
    one is required. Forge does not confine what that program runs.
    """
    stamps = {file: file_stamp(file) for file in _files(worker, workspace)}  # before they are read
    if maker:
        PreparedWorker(worker, PluginHost(worker=worker)).within(workspace).require_lock()
    async with opened(
        worker, workspace=workspace, make_zones=False, confines=maker is None
    ) as assembly:
        with ExitStack() as stack:
            begin: Callable[[str], Note] | None = None
            if maker:
                begin = partial(_begin_session, stack, worker, workspace)
            yield Gate(assembly.guard, stamps, maker or "", begin)


class Examined(Struct, frozen=True):
    """The verdict on a call, and what a program needs to follow it."""

    answer: VerdictAnswer
    """As ``forge approve --json`` prints it."""
    sets: tuple[str, ...] = ()
    """The rule sets that cover commands of a pre-approved command line.

    ``code`` is among them if a command may run code of the folder to print something.
    """
    writes: bool = False
    """True if a pre-approved call writes files."""


class Gate:
    """A judge of calls by the policy of one worker in one folder."""

    def __init__(
        self,
        guard: Guard,
        stamps: dict[Path, list[int] | None],
        maker: str,
        begin: Callable[[str], Note] | None,
    ) -> None:
        """Take the function that starts the session in which calls are recorded as ``begin``."""
        self._guard = guard
        self._stamps = stamps
        self._maker = maker
        self._begin = begin
        self._note: Note | None = None

    @property
    def stale(self) -> bool:
        """True if a file of the policy has changed, so that a new gate is needed."""
        return any(file_stamp(file) != stamp for file, stamp in self._stamps.items())

    async def judge(self, tool: str, args: JsonObject, *, made: bool = False) -> VerdictAnswer:
        """Return the verdict that ``forge approve --json`` prints.

        The arguments are those of ``examine``.
        """
        return (await self.examine(tool, args, made=made)).answer

    async def examine(self, tool: str, args: JsonObject, *, made: bool = False) -> Examined:
        """Return the verdict on a call with what it would do, and record it.

        ``made`` is True if the call was made since, so that a person has agreed if it asked.
        """
        call = ToolCall(new_id("call"), tool, args)
        try:
            judged = await self._guard.judge.verdict(call, Caller.MODEL)
        except Refusal as refusal:
            self._keep(ToolOutcome.failed(call, refusal.status, refusal.sentence, by=refusal.by))
            return Examined(refused(call, refusal))
        self._keep(*self._decided(judged, made=made))
        verdict = judged.verdict
        changes = any(place.use.access.changes for place in judged.places)
        answer = outlook_of(self._guard, judged).answer
        return Examined(answer, verdict.sets, changes or verdict.writes)

    def _decided(self, judged: Judged, *, made: bool) -> tuple[ToolOutcome, Event]:
        """Return the outcome of a call that its maker makes or not, and the decision behind it."""
        call = judged.call
        verdict = judged.verdict
        match verdict.approval:
            case Approval.PRE_APPROVED:
                decision = ApprovalDecision(True, by=verdict.by)
                outcome = ToolOutcome(call, "success", Text(f"left to {self._maker}"))
            # The maker asks its own user; a call that was made shows that the answer was yes.
            case Approval.ASK if made:
                decision = ApprovalDecision(True, by="user", via=self._maker)
                outcome = ToolOutcome(call, "success", Text(f"made by {self._maker}"))
            case Approval.ASK:
                left = f"{self._maker} decides whether it is made"
                decision = ApprovalDecision(False, by="headless", note=left)
                outcome = ToolOutcome.failed(call, "denied", left, by="headless")
            case Approval.BLOCKED:
                decision = ApprovalDecision(False, by=verdict.by)
                outcome = ToolOutcome.failed(call, "blocked", verdict.reason, by=verdict.by)
        return outcome, judged.decided(decision)

    def _keep(self, outcome: ToolOutcome, decided: Event | None = None) -> None:
        """Record a call; the session starts with the first one."""
        if self._begin is None:
            return
        self._note = note = self._note or self._begin(self._maker)
        call = outcome.call
        note(ToolStarted(call.id, call.name, call.args))
        if decided:
            note(decided)
        note(ToolResult(call.id, call.name, outcome.status, outcome.value, 0, outcome.error))


def _begin_session(stack: ExitStack, worker: Worker, workspace: Path, maker: str) -> Note:
    return stack.enter_context(_recorded(worker, workspace, maker))


@contextmanager
def _recorded(worker: Worker, workspace: Path, maker: str) -> Iterator[Note]:
    """Open a session for the calls that ``maker`` makes."""
    with open_session(worker, workspace=workspace) as session:
        folder = PreparedWorker(worker, PluginHost(worker=worker)).within(workspace)
        sinks = (*session.sinks, *folder.sinks(session.id, EventBus()))
        note = Recorder(*sinks, session=session.id, worker=worker.name, redactor=own_redactor())
        mode = ApprovalMode.INTERACTIVE.value
        note(SessionStart(OTHER_TOOLS, str(workspace), mode, worker_file=str(worker.path)))
        note(SessionUpdate(title=maker))
        calls = 0

        def count(event: Event) -> None:
            nonlocal calls
            if isinstance(event, ToolStarted):
                calls += 1
            note(event)

        yield count
        done = WorkerResult.of(
            Ending(""), session_id=session.id, worker=worker.name, model=OTHER_TOOLS
        )
        note(SessionEnd(replace(done, tool_calls=calls).wire()))


def _files(worker: Worker, workspace: Path) -> Iterable[Path]:
    """Return the files of the policy: of worker, user, project, organisation, and trust."""
    home = forge_home()
    return (
        *protected_files(worker, PluginHost()),
        home / "config.yaml",
        home / "trust.json",
        project_file(workspace),
        POLICY,
        Path(os.environ.get(POLICY_VARIABLE) or POLICY),
    )
