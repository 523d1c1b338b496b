"""The answer of a person to a request: written to the log of a parked session, or taken by the one at work."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.events import ApprovalResponse
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import NamedWorker, named_workers
from forge_cli.record.answers import leave_answer
from forge_cli.record.lock import holder
from forge_cli.record.log import Log, read_session
from forge_cli.record.open import check_log
from forge_cli.record.pending import Waiting, open_requests, requests_of
from forge_cli.record.proof import key_file
from forge_cli.record.recorder import Recorder
from forge_cli.record.state import fold
from forge_cli.record.writer import SessionLog
from forge_cli.sandbox.secrets import own_redactor


def answer_request(path: Path, request: str, decision: ApprovalDecision) -> tuple[Log, Waiting, Sequence[Waiting]]:
    """Answer a request of a session, parked or at work; returns its log, the request, and all that wait.

    ``request`` is the beginning of an id, and may be empty where only one waits.
    """
    if (pid := holder(path)) is not None:
        read = read_session(path)
        check_log(read)
        chosen = replace(_chosen(read, open_requests(read.lines), request, pid), pid=pid)
        _hand_over(read, chosen, decision)
        return read, chosen, [chosen]
    log, read = SessionLog.resume(path)
    with log:
        check_log(read)
        waiting = requests_of(read.lines, log.proofs.unproven(read.lines))
        chosen = _chosen(read, waiting, request)
        if decision.approved and log.proofs.prove("") is None:
            hint = "make that file one that you can read and write, and answer again"
            raise ForgeError(f"a yes would not count: {key_file()} cannot prove it", hint=hint)
        _record(log, read, ApprovalResponse(chosen.id, decision))
    return read, chosen, waiting


def _hand_over(read: Log, chosen: Waiting, decision: ApprovalDecision) -> None:
    """Let the process that asks take an answer; what it puts on record is what counts."""
    counted = leave_answer(read, chosen.request, decision)
    if counted is None:
        hint = "answer it where it was asked; forge approvals list shows what waits"
        raise ForgeError(f"the process {chosen.pid} of the session {read.session} did not take the answer", hint=hint)
    if (counted.approved, counted.via) != (decision.approved, decision.via):
        word, where = "yes" if counted.approved else "no", f", by {counted.via}" if counted.via else ""
        raise ForgeError(f"{chosen.id} was answered before: {word}{where}", hint="the first answer counts")


def _chosen(read: Log, waiting: Sequence[Waiting], request: str, pid: int | None = None) -> Waiting:
    found = [each for each in waiting if each.id.startswith((request, f"approval_{request}"))]
    exact = [each for each in found if each.id == request]
    match exact or found:
        case [one]:
            return one
        case []:
            problem = f"the session {read.session} has no pending request" + (f" '{request}'" if request else "")
        case several:
            beginning = f"'{request}' is the beginning of" if request else f"name one: the session {read.session} has"
            problem = f"{beginning} {len(several)} requests"
    pending = "\n  ".join(f"{each.id}: {each.request.tool_name}" for each in waiting)
    if not pending and pid:
        pending = (
            f"it is at work (process {pid}) and asks nothing now; answer once forge approvals list shows a request"
        )
    raise UsageError(problem, hint=pending or "it waits for nothing; forge approvals list shows what waits")


def _record(log: SessionLog, read: Log, event: ApprovalResponse) -> None:
    recorder = Recorder(
        session=read.lines[-1].session,
        worker=read.lines[0].worker,
        depth=0,
        redactor=own_redactor(),
        after=read.lines[-1],
    )
    recorder.add_sink(log)
    recorder(event)


def _name_of(file: str) -> str:
    """The name by which the worker in a file is found from here, or the file."""
    first: dict[str, NamedWorker] = {}
    for each in named_workers(Path.cwd(), forge_home()):
        first.setdefault(each.name, each)
    return next((name for name, each in first.items() if os.path.realpath(each.path) == os.path.realpath(file)), file)


def resume_command(read: Log) -> str:
    """The command that continues a session from here."""
    start = fold(read.lines).start
    worker = _name_of(start.worker_file) if start and start.worker_file else "WORKER"
    argv = ["forge", "run", worker, "-r", read.session]
    if start and start.workspace and Path(start.workspace) != Path.cwd().resolve():
        argv += ["-C", start.workspace]
    return shlex.join(argv)
