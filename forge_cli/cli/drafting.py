"""A session in a draft: one process works in the view, and this one keeps the draft outside."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from forge_cli.cli.notices import warn
from forge_cli.core.approval import ApprovalMode, OnEnd
from forge_cli.core.errors import ForgeError, StatusLevel, UsageError
from forge_cli.core.text import counted, visible
from forge_cli.engine.runtime.drafting import (
    apply_changes_of,
    changes_of,
    describe_draft,
    draft_size,
    draft_zones,
)
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.files.worker import load_worker
from forge_cli.record.places import new_session_id, sessions_folder
from forge_cli.sandbox.drafts.changes import ChangedDraft, renew_start
from forge_cli.sandbox.drafts.draft import (
    SessionDraft,
    all_drafts,
    drop_draft,
    finish_drafts,
    new_draft,
)
from forge_cli.sandbox.drafts.link import DraftKeeper, DraftLink
from forge_cli.sandbox.drafts.view import enter_view, require_views
from forge_cli.sandbox.trial.left import finish_trials

Mask = set[int | signal.Signals]
"""Blocked signals."""
_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_BY_TERMINAL = 0x80
"""``si_code`` of a signal from the terminal, which the session receives as well."""
_PR_SET_PDEATHSIG = 1


def enter_draft(asked: RunOptions) -> RunOptions:
    """Fork, and return in the process that sees the view.

    The other process waits for it and exits with its exit code, or forks again if the session goes
    on. A resumed session continues in its draft, even without ``--draft``.
    """
    finish_trials(sessions_folder(), _notify)
    finish_drafts(_notify)
    is_first = True
    while (draft := _draft_of(asked)) is not None:
        link = _fork(draft)
        if isinstance(link, DraftLink):
            if asked.trace != "quiet" and is_first:
                until = "until you take the changes"
                sys.stderr.write(f"draft {draft.id}: the real files stay as they are {until}\n")
            return replace(asked, draft_link=link)
        asked = _stay_outside(draft.become("open"), asked, link)
        is_first = False
    return asked


def _notify(level: StatusLevel, notice: str) -> None:
    warn(notice)


class _Fork(Struct, frozen=True):
    """The process in the view, as the one outside sees it."""

    child: int
    connection: socket.socket
    lock: int


def _fork(draft: SessionDraft) -> DraftLink | _Fork:
    """Fork, and enter the view in the child, which gets the connection to this process."""
    ours, theirs = socket.socketpair()
    # Otherwise, both processes would write what is still buffered.
    sys.stdout.flush()
    sys.stderr.flush()
    # Both processes keep the lock open until they end; the programs that they start do not.
    lock = draft.lock()
    child = os.fork()
    if child:
        theirs.close()
        return _Fork(child, ours, lock)
    ours.close()
    # Without the process outside, a session cannot finish its draft.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    enter_view(draft)  # if it fails, the process outside drops a draft without changes
    return DraftLink(theirs, draft.id, draft.place, frozenset(draft.roots))


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
    if not asked.draft:
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
    size = draft_size(worker, asked.host(worker))
    return new_draft(new_session_id(), worker.name, worker.path, asked.workspace, zones, size)


def _goes_on(asked: RunOptions, session: str, message: str = "") -> RunOptions:
    """Return the options with which a session continues in its draft, or in a new one."""
    return replace(
        asked,
        resume=session,
        last=False,
        fork=False,
        task=message,
        attachments=(),
        draft=True,
        goes_on=True,
        reviews_answer=bool(message),
    )


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
        self.wanted: tuple[str, ...] = ()
        """The command for which the session has ended, with its arguments."""
        self.typed = b""
        """Input that the session has read and not used."""
        self._asked = asked

    def opened(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        self.draft = self.draft.become("open", session=question["session"])
        return {"id": self.draft.id, "state": "open", "changes": [], "conflicts": []}

    def shown(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Describe the changes so far, without ending anything."""
        return describe_draft(changes_of(self.draft))

    def left(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Note the command for which the session ends; it goes on afterwards."""
        self.wanted = tuple(question["command"])
        return self.shown(question)

    def given_back(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keep unused input for the next process."""
        self.typed = bytes.fromhex(question["typed"])
        return {"id": self.draft.id, "state": "ready", "changes": [], "conflicts": []}

    def ended(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry out ``--on-end``; changes are applied only if the session has completed."""
        self.draft = self.draft.become("ready")
        changed = changes_of(self.draft)
        if self.wanted:
            return describe_draft(changed)
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


def _stay_outside(draft: SessionDraft, asked: RunOptions, fork: _Fork) -> RunOptions:
    """Wait for the session, pass on signals and answer its questions.

    Return the options with which the session goes on, or exit.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    outside = _Outside(draft, asked)
    answers = {
        "opened": outside.opened,
        "shown": outside.shown,
        "left": outside.left,
        "typed": outside.given_back,
        "ended": outside.ended,
    }
    keeper = DraftKeeper(fork.connection, answers)
    serving = threading.Thread(target=_serve, args=(keeper,), daemon=True)
    serving.start()
    code = _wait(fork.child)
    serving.join()
    fork.connection.close()
    following = None
    try:
        if outside.wanted:
            following = replace(_carry_out(outside, asked, mask), typed=outside.typed)
        else:
            following = _finish(outside.draft, asked, mask)
        if outside.problem:
            raise outside.problem
    except ForgeError as error:
        sys.stderr.write(f"forge: {error}\n")
        code = code or int(error.exit_code)
    sys.stdout.flush()
    sys.stderr.flush()
    if following is None:
        os._exit(code)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(fork.lock)
    return following


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


def _carry_out(outside: _Outside, asked: RunOptions, mask: Mask) -> RunOptions:
    """Carry out a command of the conversation, and return the options with which it goes on."""
    draft = outside.draft.become("ready")
    command, *args = outside.wanted
    message = ""
    try:
        if command == "resume":
            _finish(draft, replace(asked, interactive=False), mask)
            return replace(_goes_on(asked, args[0]), draft=False)
        changed = changes_of(draft)
        if command == "drop":
            drop_draft(draft)
            sys.stderr.write(f"dropped {counted(len(changed.changes), 'change')}\n")
        elif command == "apply":
            _apply(changed, args)
        else:
            if not asked.interactive:
                hint = "/apply [PATH]... applies the changes, /drop forgets them"
                raise UsageError("forge cannot ask: this is not a terminal", hint=hint)
            if not changed.changes:
                raise UsageError(f"the draft {draft.id} changed nothing")
            message = _review(changed, mask)
    except ForgeError as error:
        # The conversation goes on, and its draft is as it was.
        sys.stderr.write(f"forge: {error}\n")
    return _goes_on(asked, draft.session, message)


def _apply(changed: ChangedDraft, paths: Sequence[str]) -> None:
    """Apply these paths, or without any all changes that are not protected."""
    from forge_cli.cli.drafts.common import chosen_of

    folder = Path(changed.draft.workspace)
    chosen = chosen_of(changed, [folder / path for path in paths])
    after = apply_changes_of(changed, chosen) if chosen else changed.draft
    sys.stderr.write(f"applied {counted(len(chosen), 'change')}\n")
    if not paths:
        for each in changed.changes:
            if each.protected:
                sys.stderr.write(
                    visible(f"not applied: {each.path} ({each.protected}); name it to apply it")
                    + "\n"
                )
    if after.state == "applied":
        drop_draft(after)


def _review(changed: ChangedDraft, mask: Mask) -> str:
    """Review a draft on the terminal, and return the message for the model, if there is one."""
    from forge_cli.cli.drafts.reviewing import review_draft

    # A review handles Ctrl+C itself, and an editor needs the usual signals.
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        return review_draft(changed, can_talk=True).message
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _finish(draft: SessionDraft, asked: RunOptions, mask: Mask) -> RunOptions | None:
    """Review, drop or keep the draft after its session, and print the next commands.

    Return the options with which the session goes on if the person has a message for the model.
    """
    draft = draft.become("ready" if draft.state == "open" else draft.state)
    changed = changes_of(draft)
    if draft.state == "applied" or not changed.changes or asked.on_end is OnEnd.DROP:
        drop_draft(draft)
        return None
    if asked.trace == "quiet" and not asked.interactive:
        return None
    if asked.interactive and asked.on_end is OnEnd.KEEP and changed.draft.state == "ready":
        if message := _review(changed, mask):
            return _goes_on(asked, draft.session, message)
        return None
    count = counted(len(changed.changes), "change")
    conflicts = f", {counted(len(changed.conflicts), 'conflict')}" if changed.conflicts else ""
    sys.stderr.write(f"  draft {draft.id}: {count}{conflicts}; the real files are as they were\n")
    sys.stderr.write(
        f"  forge drafts show {draft.id} shows it; forge drafts apply {draft.id} applies it\n"
    )
    return None
