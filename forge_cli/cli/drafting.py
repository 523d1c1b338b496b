"""A session in a draft: one process works in the view, and this one keeps the draft outside."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from forge_cli.cli.notices import warn
from forge_cli.core.approval import ApprovalMode, OnEnd
from forge_cli.core.errors import ForgeError, StatusLevel, UsageError
from forge_cli.core.text import counted, visible
from forge_cli.core.trial import DraftCheck
from forge_cli.core.wire import wire
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
from forge_cli.sandbox.drafts.changes import ChangedDraft, DraftChange, renew_start
from forge_cli.sandbox.drafts.draft import (
    SessionDraft,
    all_drafts,
    drop_applied,
    drop_draft,
    finish_drafts,
    new_draft,
)
from forge_cli.sandbox.drafts.link import DraftKeeper, DraftLink
from forge_cli.sandbox.drafts.view import enter_view, prepare_view
from forge_cli.sandbox.trial.left import finish_trials
from forge_cli.ui.wrap import wrap_for

if TYPE_CHECKING:
    from forge_cli.cli.drafts.reviewing import ReviewOutcome

Mask = set[int | signal.Signals]
"""Blocked signals."""
WAITED_FOR = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD}
"""Signals that are passed on to sessions, and that of their end."""
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
        link = fork_into(draft, asked)
        if isinstance(link, DraftLink):
            if asked.trace != "quiet" and is_first:
                sys.stderr.write(wrap_for(sys.stderr, _banner(draft)) + "\n")
            return replace(asked, draft_link=link)
        asked = _stay_outside(draft.become("open"), asked, link)
        is_first = False
    return asked


def _banner(draft: SessionDraft) -> str:
    until = f"draft {draft.id}: the real files stay as they are until you take the changes"
    if not draft.why_copied:
        return until
    copies = ", ".join(sorted(zone.copy for zone in draft.zones))
    return visible(f"{until}; it works on a plain copy, {copies}, because {draft.why_copied}")


def _notify(level: StatusLevel, notice: str) -> None:
    warn(notice)


class Fork(Struct, frozen=True):
    """The process in the view, as the one outside sees it."""

    child: int
    connection: socket.socket
    lock: int


def fork_into(draft: SessionDraft, asked: RunOptions) -> DraftLink | Fork:
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
        return Fork(child, ours, lock)
    ours.close()
    # Without the process outside, a session cannot finish its draft.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    enter_view(draft)  # if it fails, the process outside drops a draft without changes
    follows_dropped = asked.settled is not None and asked.settled["state"] == "dropped"
    return DraftLink(theirs, draft, check=asked.check, follows_dropped=follows_dropped)


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
    return begin_draft(asked)


def begin_draft(asked: RunOptions) -> SessionDraft:
    """Make a new draft; raise a ForgeError if this machine or these options cannot have one."""
    if asked.recording is not None:
        raise UsageError("--draft and --replay contradict each other; keep one")
    is_approved = asked.mode is ApprovalMode.APPROVE_ALL or asked.check
    if asked.on_end is OnEnd.APPLY and not is_approved:
        raise UsageError(
            "--on-end apply takes changes that nobody has seen",
            hint="add -y, or a --check that they must pass; without it the draft waits",
        )
    worker = load_worker(asked.worker)
    if asked.ephemeral:
        raise UsageError("--ephemeral and --draft contradict each other: a draft needs its session")
    zones = list(draft_zones(worker, asked.host(worker), asked.workspace, asked.zones))
    if not zones:
        raise UsageError("there is nothing to draft: the worker has no zone that it may write to")
    size = draft_size(worker, asked.host(worker))
    id = new_session_id()
    return prepare_view(new_draft(id, worker.name, worker.path, asked.workspace, zones, size))


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
        settled=None,
    )


def _resumed_session(asked: RunOptions) -> str | None:
    if asked.resume is not None:
        from forge_cli.record.log import find_session

        return find_session(asked.resume).stem
    if asked.last:
        from forge_cli.record.overview import last_session

        return last_session(load_worker(asked.worker), asked.workspace, lambda sentence: None).stem
    return None


class KeptDraft:
    """State of the draft in the process outside, updated by the reports of the session."""

    def __init__(
        self,
        draft: SessionDraft,
        asked: RunOptions,
        may_apply: Callable[[KeptDraft], bool] = lambda outside: True,
    ) -> None:
        """``may_apply`` is called at the end of the session, once its check has been run."""
        self.draft = draft
        self.check: DraftCheck | None = None
        self.answers = {
            "opened": self.opened,
            "shown": self.shown,
            "left": self.left,
            "typed": self.given_back,
            "ended": self.ended,
        }
        self._may_apply = may_apply
        self.problem: ForgeError | None = None
        """The reason why the draft could not be applied at the end."""
        self.wanted: tuple[str, ...] = ()
        """The command for which the session has ended, with its arguments."""
        self.typed = b""
        """Input that the session has read and not used."""
        self._asked = asked

    def opened(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        self.draft = self.draft.become("open", session=question["session"])
        told = {"id": self.draft.id, "state": "open", "changes": [], "conflicts": []}
        return {**told, "settled": self._asked.settled}

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
        found = question["check"]
        self.check = DraftCheck(**found) if found else None
        may_apply = self._may_apply(self)
        self.draft = self.draft.become("ready")
        changed = changes_of(self.draft)
        told = dict(describe_draft(changed))
        if self.check is not None:
            told["check"] = wire(self.check)
        if self.draft.attempts:
            told["attempts"] = list(self.draft.attempts)
        if self.wanted:
            return told
        wanted = self._asked.on_end
        if not changed.changes or wanted is OnEnd.DROP:
            return {**told, "state": "dropped"}
        if wanted is OnEnd.APPLY and question["status"] == "completed" and may_apply:
            try:
                self.draft = apply_changes_of(changed, changed.taken_by_all())
            except ForgeError as error:
                self.problem = error
            told["state"] = self.draft.state
        return told


def _stay_outside(draft: SessionDraft, asked: RunOptions, fork: Fork) -> RunOptions:
    """Wait for the session, pass on signals and answer its questions.

    Return the options with which the session goes on, or exit.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)
    outside = KeptDraft(draft, asked)
    keeper = DraftKeeper(fork.connection, outside.answers)
    serving = threading.Thread(target=keeper.serve, daemon=True)
    serving.start()
    code = wait_for([fork.child])[fork.child]
    serving.join()
    fork.connection.close()
    following = None
    try:
        if outside.wanted:
            following = replace(_carry_out(outside, asked, mask), typed=outside.typed)
        else:
            following = finish_draft(outside, asked, mask)
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


def wait_for(children: Iterable[int]) -> dict[int, int]:
    """Pass on signals until all these sessions have ended, and return their exit codes."""
    running = set(children)
    codes: dict[int, int] = {}
    while running:
        number, by_terminal = _next_signal()
        for child in list(running):
            if number == signal.SIGCHLD:
                # One signal may stand for the end of several.
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    code = os.waitstatus_to_exitcode(status)
                    # Shells report the end by a signal in the same way.
                    codes[child] = code if code >= 0 else 128 - code
                    running.remove(child)
            elif not by_terminal:
                os.kill(child, number)
    return codes


def _next_signal() -> tuple[int, bool]:
    """Wait for a signal; return its number, and if the terminal has sent it to every process."""
    if sys.platform == "linux":
        found = signal.sigwaitinfo(WAITED_FOR)
        return found.si_signo, found.si_code == _BY_TERMINAL
    number = signal.sigwait(WAITED_FOR)
    return number, number in (signal.SIGINT, signal.SIGQUIT) and sys.stdin.isatty()


def _carry_out(outside: KeptDraft, asked: RunOptions, mask: Mask) -> RunOptions:
    """Carry out a command of the conversation, and return the options with which it goes on."""
    draft = outside.draft.become("ready")
    command, *args = outside.wanted
    message = ""
    settled: Mapping[str, Any] | None = None
    try:
        if command == "resume":
            outside.draft = draft
            finish_draft(outside, replace(asked, interactive=False), mask)
            return replace(_goes_on(asked, args[0]), draft=False)
        changed = changes_of(draft)
        if command == "drop":
            drop_draft(draft)
            settled = {**describe_draft(changed), "state": "dropped"}
            sys.stderr.write(f"dropped {counted(len(changed.changes), 'change')}\n")
        elif command == "apply":
            settled = _as_applied(changed, _apply(changed, args))
        else:
            if not asked.interactive:
                hint = "/apply [PATH]... applies the changes, /drop forgets them"
                raise UsageError("forge cannot ask: this is not a terminal", hint=hint)
            if not changed.changes:
                raise UsageError(f"the draft {draft.id} changed nothing")
            outcome = _review(changed, mask)
            message = outcome.message
            settled = _as_applied(changed, outcome.applied)
    except ForgeError as error:
        # The conversation goes on, and its draft is as it was.
        sys.stderr.write(f"forge: {error}\n")
    return replace(_goes_on(asked, draft.session, message), settled=settled)


def _as_applied(changed: ChangedDraft, applied: Sequence[DraftChange]) -> Mapping[str, Any] | None:
    """Return what the record tells of applied changes; None if there are none."""
    if not applied:
        return None
    return {**describe_draft(changed, applied), "state": "applied"}


def _apply(changed: ChangedDraft, paths: Sequence[str]) -> list[DraftChange]:
    """Apply these paths, or without any all changes that are not protected; return the changes."""
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
        drop_applied(after)
    return chosen


def _review(changed: ChangedDraft, mask: Mask) -> ReviewOutcome:
    """Review a draft on the terminal."""
    from forge_cli.cli.drafts.reviewing import review_draft

    # A review handles Ctrl+C itself, and an editor needs the usual signals.
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        return review_draft(changed, can_talk=True)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def finish_draft(outside: KeptDraft, asked: RunOptions, mask: Mask) -> RunOptions | None:
    """Review, drop or keep the draft after its session, and print the next commands.

    Return the options with which the session goes on if the person has a message for the model.
    """
    draft = outside.draft
    if outside.problem:
        raise outside.problem
    draft = draft.become("ready" if draft.state == "open" else draft.state)
    changed = changes_of(draft)
    if draft.state == "applied":
        drop_applied(draft)
        return None
    if not changed.changes or asked.on_end is OnEnd.DROP:
        drop_draft(draft)
        return None
    if asked.trace == "quiet" and not asked.interactive:
        return None
    if asked.interactive and asked.on_end is OnEnd.KEEP and changed.draft.state == "ready":
        if message := _review(changed, mask).message:
            return _goes_on(asked, draft.session, message)
        return None
    count = counted(len(changed.changes), "change")
    conflicts = f", {counted(len(changed.conflicts), 'conflict')}" if changed.conflicts else ""
    sys.stderr.write(f"  draft {draft.id}: {count}{conflicts}; the real files are as they were\n")
    sys.stderr.write(
        f"  forge drafts show {draft.id} shows it; forge drafts apply {draft.id} applies it\n"
    )
    return None
