"""A session in a draft: one process works in the view, and this one keeps the draft outside."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from forge_cli.core.approval import ApprovalMode, OnEnd
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import counted
from forge_cli.engine.runtime.drafting import (
    apply_changes_of,
    changes_of,
    describe_draft,
    draft_zones,
)
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.files.worker import load_worker
from forge_cli.record.places import new_session_id
from forge_cli.sandbox.drafts.changes import renew_start
from forge_cli.sandbox.drafts.draft import SessionDraft, all_drafts, drop_draft, new_draft
from forge_cli.sandbox.drafts.link import DraftKeeper, DraftLink
from forge_cli.sandbox.drafts.view import enter_view, require_views

_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_BY_TERMINAL = 0x80
"""``si_code`` of a signal from the terminal, which the session receives as well."""
_PR_SET_PDEATHSIG = 1


def enter_draft(asked: RunOptions) -> RunOptions:
    """Fork, and return in the process that sees the view.

    The other process waits for it and exits with its exit code. A resumed session continues in its
    draft, even without ``--draft``.
    """
    draft = _draft_of(asked)
    if draft is None:
        return asked
    ours, theirs = socket.socketpair()
    # Otherwise, both processes would write what is still buffered.
    sys.stdout.flush()
    sys.stderr.flush()
    # Both processes keep the lock open until they end; the programs that they start do not.
    os.set_inheritable(draft.lock(), False)
    child = os.fork()
    if child:
        theirs.close()
        _stay_outside(draft.become("open"), asked, child, ours)
    ours.close()
    # Without the process outside, a session cannot finish its draft.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    enter_view(draft)  # if it fails, the process outside drops a draft without changes
    if asked.trace != "quiet":
        sys.stderr.write(
            f"draft {draft.id}: the real files stay as they are until you take the changes\n"
        )
    return replace(asked, draft_link=DraftLink(theirs, draft.id, frozenset(draft.roots)))


def _draft_of(asked: RunOptions) -> SessionDraft | None:
    """Return the draft that a session works in; None for one that works on the real files."""
    session = _resumed_session(asked)
    earlier = next((each for each in all_drafts() if session and each.session == session), None)
    if earlier is not None:
        if asked.fork:
            raise UsageError(
                f"the session {session} works in the draft {earlier.id}",
                hint=f"forge drafts apply {earlier.id}, or drop it, and fork the session then",
            )
        earlier.require_unused()
        renew_start(earlier)
        return earlier
    if session is not None:
        return None  # a resumed session continues on the real files
    if asked.recording is not None:
        raise UsageError("--draft and --replay contradict each other; keep one")
    if asked.on_end is OnEnd.APPLY and asked.mode is not ApprovalMode.APPROVE_ALL:
        raise UsageError(
            "--on-end apply takes changes that nobody has seen",
            hint="add -y if that is what you want; without it the draft waits for a review",
        )
    require_views()
    worker = load_worker(asked.worker)
    if asked.ephemeral:
        raise UsageError("--ephemeral and --draft contradict each other: a draft needs its session")
    zones = list(draft_zones(worker, asked.host(worker), asked.workspace, asked.zones))
    if not zones:
        raise UsageError("there is nothing to draft: the worker has no zone that it may write to")
    return new_draft(new_session_id(), worker.name, worker.path, asked.workspace, zones)


def _resumed_session(asked: RunOptions) -> str | None:
    if asked.resume is not None:
        from forge_cli.record.log import find_session

        return find_session(asked.resume).stem
    if asked.last:
        from forge_cli.record.overview import last_session

        return last_session(load_worker(asked.worker), asked.workspace, lambda sentence: None).stem
    return None


class _Outside:
    """State of the draft in the process outside, updated by the reports of the session."""

    def __init__(self, draft: SessionDraft, asked: RunOptions) -> None:
        self.draft = draft
        self.problem: ForgeError | None = None
        """The reason why the draft could not be applied at the end."""
        self._asked = asked

    def opened(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        self.draft = self.draft.become("open", session=question["session"])
        return {"id": self.draft.id, "state": "open", "changes": [], "conflicts": []}

    def ended(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry out ``--on-end``; changes are applied only if the session has completed."""
        self.draft = self.draft.become("ready")
        changed = changes_of(self.draft)
        if not changed.changes:
            return {**describe_draft(changed), "state": "dropped"}
        wanted = self._asked.on_end
        if wanted is OnEnd.DROP:
            return {**describe_draft(changed), "state": "dropped"}
        if wanted is OnEnd.APPLY and question["status"] == "completed":
            chosen = changed.taken_by_all()
            try:
                self.draft = apply_changes_of(changed, chosen)
            except ForgeError as error:
                self.problem = error
                return describe_draft(changed)
            return {**describe_draft(changed), "state": self.draft.state}
        return describe_draft(changed)


def _stay_outside(
    draft: SessionDraft, asked: RunOptions, child: int, connection: socket.socket
) -> None:
    """Wait for the session, pass on signals, answer its questions, and exit."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    outside = _Outside(draft, asked)
    answers = {"opened": outside.opened, "ended": outside.ended}
    keeper = DraftKeeper(connection, answers)
    serving = threading.Thread(target=_serve, args=(keeper,), daemon=True)
    serving.start()
    code = _wait(child)
    serving.join()
    try:
        _finish(outside.draft, asked)
        if outside.problem:
            raise outside.problem
    except ForgeError as error:
        sys.stderr.write(f"forge: {error}\n")
        code = code or int(error.exit_code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _serve(keeper: DraftKeeper) -> None:
    while keeper.serve_one():
        pass


def _wait(child: int) -> int:
    """Pass on signals until the session ends, and return its exit code."""
    while True:
        found = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if found.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                # Shells report the end by a signal in the same way.
                return code if code >= 0 else 128 - code
        elif found.si_code != _BY_TERMINAL:
            os.kill(child, found.si_signo)


def _finish(draft: SessionDraft, asked: RunOptions) -> None:
    """Review, drop or keep the draft after its session, and print the next commands."""
    draft = draft.become("ready" if draft.state == "open" else draft.state)
    changed = changes_of(draft)
    if draft.state == "applied" or not changed.changes or asked.on_end is OnEnd.DROP:
        drop_draft(draft)
        return
    if asked.trace == "quiet" and not asked.interactive:
        return
    if asked.interactive and asked.on_end is OnEnd.KEEP and changed.draft.state == "ready":
        from forge_cli.cli.drafts.reviewing import review_draft

        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
        review_draft(changed)
        return
    count = counted(len(changed.changes), "change")
    conflicts = f", {counted(len(changed.conflicts), 'conflict')}" if changed.conflicts else ""
    sys.stderr.write(f"  draft {draft.id}: {count}{conflicts}; the real files are as they were\n")
    sys.stderr.write(
        f"  forge drafts show {draft.id} shows it; forge drafts apply {draft.id} takes it\n"
    )
