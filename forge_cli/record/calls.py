"""The calls of past sessions, each with the verdict that it had, by the worker that made them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from forge_cli.core.approval import DecidedBy
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ForgeError, Mark
from forge_cli.core.events import ApprovalDecided, ApprovalRequired
from forge_cli.record.find import session_files
from forge_cli.record.line import Line
from forge_cli.record.log import read_session
from forge_cli.record.open import check_log
from forge_cli.record.state import CallState, SessionState, fold


@dataclass(frozen=True)
class PastVerdict:
    """The verdict on a call; ``refused`` where it could not run at all."""

    verdict: str
    reason: str
    rule: str | None = None
    where: Mark | None = None
    by: DecidedBy | None = None

    @classmethod
    def of(cls, event: ApprovalDecided | ApprovalRequired) -> PastVerdict:
        """The verdict that settled a call, or the request that was left open."""
        match event:
            case ApprovalDecided():
                return cls(event.verdict, event.reason, event.rule, event.where, event.by)
            case ApprovalRequired(request=request):
                return cls("ask", request.reason, request.rule, request.where)


@dataclass(frozen=True)
class PastCall:
    """A call that was made by the model, by a tool, or by a person; without a verdict where it came to none."""

    call: ToolCall
    by_model: bool
    verdict: PastVerdict | None = None
    remembered: bool = False
    """Was it allowed because an earlier one was allowed for the whole session?"""
    answer: bool | None = None
    """A person's yes or no to it; None where no person said either."""


def past_calls(lines: Iterable[Line], delegation: str | None = None) -> list[PastCall]:
    """The calls of one worker in order, the root unless a task of a child worker is named."""
    return calls_of(fold(lines), delegation)


def calls_of(state: SessionState, delegation: str | None) -> list[PastCall]:
    return [_past_call(each) for each in state.calls if each.worker.delegation == delegation]


def _past_call(state: CallState) -> PastCall:
    decided = state.decided.event if state.decided else None
    answer = None if state.answer is None else state.answer.approved
    if decided:
        answer = decided.approved if decided.by == "user" else None
    return PastCall(state.call, state.by_model, _verdict(state), bool(decided and decided.cached), answer)


def _verdict(state: CallState) -> PastVerdict | None:
    settled, result = state.decided or state.asked, state.result
    if settled:
        return PastVerdict.of(settled.event)
    if result is None or result.status == "interrupted":
        return None
    return PastVerdict("blocked" if result.status == "blocked" else "refused", result.error or "")


@dataclass(frozen=True)
class PastWork:
    """The calls of one worker in a session: the root, or a child worker, which has no file on record."""

    worker: str
    root_file: str | None
    """The file of the worker that the session was started with."""
    is_root: bool
    workspace: str
    time: str
    """Of the last line of the session."""
    calls: tuple[PastCall, ...]


def past_work(warn: Callable[[str], None]) -> Iterator[PastWork]:
    """The work of every session, the last first; one that was damaged or tampered with is told, and left out."""
    for path in session_files():
        try:
            log = read_session(path)
            check_log(log)
            state = fold(log.lines)
            for task, worker in state.workers.items():
                calls = tuple(calls_of(state, task))
                if (start := state.start) and calls:
                    ended = log.lines[-1].time
                    yield PastWork(worker.name, start.worker_file, task is None, start.workspace, ended, calls)
        except ForgeError as error:
            warn(str(error).partition("\n")[0])
