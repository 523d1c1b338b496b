"""Several drafts of one task side by side, of which the first that passes its check is offered."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from forge_cli.cli.drafting import (
    WAITED_FOR,
    Fork,
    KeptDraft,
    Mask,
    begin_draft,
    enter_draft,
    finish_draft,
    fork_into,
    wait_for,
)
from forge_cli.core.approval import OnEnd
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.text import counted, readable, visible
from forge_cli.engine.runtime.drafting import changes_of
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.record.target import write_target
from forge_cli.sandbox.drafts.draft import SessionDraft, drop_draft
from forge_cli.sandbox.drafts.link import DraftKeeper, DraftLink

_ANSWER, _OUTPUT, _ERRORS = "answer", "output", "errors"
"""Files of an attempt in the folder of its draft: the answer for ``-o``, and what it printed."""
_MAX_ERRORS = 5
"""Last lines of an attempt that failed before its check."""


@dataclass(eq=False)
class _Attempt:
    """One attempt, as the process outside sees it."""

    number: int
    fork: Fork
    outside: KeptDraft

    @property
    def place(self) -> Path:
        return self.outside.draft.place

    def printed(self, name: str) -> str:
        with suppress(OSError):
            return (self.place / name).read_text(errors="replace")
        return ""

    def problem(self, code: int) -> str:
        """Return why the attempt is not offered: the check, or the end of its session."""
        if self.outside.check is not None:
            return self.outside.check.problem()
        lines = self.printed(_ERRORS).strip().splitlines()
        return "\n".join([f"ended with exit code {code} before its check", *lines[-_MAX_ERRORS:]])


class _Race:
    """The first attempt whose check passes; the attempts report in threads of their own."""

    def __init__(self) -> None:
        self.first: KeptDraft | None = None
        self._lock = threading.Lock()

    def is_won_by(self, outside: KeptDraft) -> bool:
        """Return True for the first attempt that passed its check."""
        with self._lock:
            if self.first is None and outside.check is not None and outside.check.passed:
                self.first = outside
            return self.first is outside


def _require_possible(asked: RunOptions) -> None:
    """Raise UsageError for options that contradict several attempts."""
    alone = {
        "-r": asked.resume is not None,
        "-c": asked.last,
        "--replay": asked.recording is not None,
        "--record": asked.record is not None,
        "--ephemeral": asked.ephemeral,
    }
    if refused := [name for name, given in alone.items() if given]:
        raise UsageError(f"--attempts and {refused[0]} contradict each other; keep one")


def enter_attempts(asked: RunOptions) -> RunOptions:
    """Fork a process for each attempt, and return in each of them.

    The process outside waits for all of them, offers one, and exits.
    """
    wanted = asked.attempts
    if wanted is None:
        raise ValueError("no attempts are wanted")
    _require_possible(asked)
    drafts = _begin_drafts(asked, wanted.count)
    race = _Race()
    attempts: list[_Attempt] = []
    for number, draft in enumerate(drafts, 1):
        link = fork_into(draft, asked)
        if isinstance(link, DraftLink):
            for other in attempts:
                # Only the process outside uses these.
                other.fork.connection.close()
                os.close(other.fork.lock)
            _redirect(draft.place, wanted.out.fileno())
            return replace(asked, draft_link=link, interactive=False, trace="quiet")
        outside = KeptDraft(draft.become("open"), asked, race.is_won_by)
        attempts.append(_Attempt(number, link, outside))
    following = _stay_outside(attempts, race, asked)
    return enter_draft(following)


def answer_file(link: DraftLink) -> Path:
    """Return the file for the answer of an attempt."""
    return link.place / _ANSWER


def _begin_drafts(asked: RunOptions, count: int) -> Sequence[SessionDraft]:
    drafts: list[SessionDraft] = []
    try:
        for _ in range(count):
            drafts.append(begin_draft(asked))
    except BaseException:
        for draft in drafts:
            drop_draft(draft)
        raise
    ids = tuple(draft.id for draft in drafts)
    return [draft.become("open", attempts=ids) for draft in drafts]


def _redirect(place: Path, out: int) -> None:
    """Write the output of this process to files: only one attempt's is shown."""
    for name, descriptors in ((_OUTPUT, (out,)), (_ERRORS, (1, 2))):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        file = os.open(place / name, flags, 0o600)
        for descriptor in descriptors:
            os.dup2(file, descriptor)
        os.close(file)


def _stay_outside(attempts: Sequence[_Attempt], race: _Race, asked: RunOptions) -> RunOptions:
    """Wait for all attempts, offer the first that passed, and exit, or return how to go on."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)
    if asked.trace != "quiet":
        sys.stderr.write(f"{counted(len(attempts), 'attempt')}, each in a draft of its own\n")
    threads: list[threading.Thread] = []
    for each in attempts:
        keeper = DraftKeeper(each.fork.connection, each.outside.answers)
        threads.append(threading.Thread(target=keeper.serve, daemon=True))
        threads[-1].start()
    codes = wait_for([each.fork.child for each in attempts])
    for thread in threads:
        thread.join()
    winner = next((each for each in attempts if each.outside is race.first), None)
    for each in attempts:
        _report(each, codes[each.fork.child], asked, is_offered=each is winner)
    following = None
    code = max(codes.values()) if max(codes.values()) > 128 else int(ExitCode.FAILED)
    try:
        if winner is None:
            _print_failure(attempts, codes, asked)
        _keep_others([each for each in attempts if each is not winner], asked)
        if winner is not None:
            code = codes[winner.fork.child]
            following = _offer(winner, asked, mask)
    except ForgeError as error:
        sys.stderr.write(f"forge: {error}\n")
        code = code or int(error.exit_code)
    if following is None:
        _leave(code)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return following


def _leave(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _report(each: _Attempt, code: int, asked: RunOptions, *, is_offered: bool) -> None:
    """Print the end of an attempt."""
    if is_offered:
        result = "its check passed first"
    elif each.outside.check is not None and each.outside.check.passed:
        result = "its check passed, too"
    elif each.outside.check is not None:
        result = "its check failed"
    else:
        result = f"ended with exit code {code}"
    if asked.trace != "quiet":
        sys.stderr.write(f"  attempt {each.number}: {result} (draft {each.outside.draft.id})\n")


def _keep_others(others: Sequence[_Attempt], asked: RunOptions) -> None:
    """Keep the drafts that were not offered until one is taken; drop those without changes."""
    for each in others:
        draft = each.outside.draft.become("ready")
        # From here on, other commands may use the draft.
        each.fork.connection.close()
        os.close(each.fork.lock)
        if asked.on_end is OnEnd.DROP or not changes_of(draft).changes:
            drop_draft(draft)


def _print_failure(attempts: Sequence[_Attempt], codes: dict[int, int], asked: RunOptions) -> None:
    """Print why each attempt failed, and for a program the result of the first one."""
    if asked.attempts is not None and asked.attempts.is_data:
        asked.attempts.out.write(attempts[0].printed(_OUTPUT))
        asked.attempts.out.flush()
    sys.stderr.write("forge: no attempt passed its check; nothing was applied\n")
    for each in attempts:
        problem = readable(each.problem(codes[each.fork.child])).replace("\n", "\n    ")
        sys.stderr.write(f"  attempt {each.number}: {problem}\n")


def _offer(winner: _Attempt, asked: RunOptions, mask: Mask) -> RunOptions | None:
    """Print the answer of an attempt, and review, apply or keep its draft."""
    wanted = asked.attempts
    if wanted is not None:
        wanted.out.write(winner.printed(_OUTPUT))
        wanted.out.flush()
        if wanted.file is not None:
            try:
                write_target(wanted.file, winner.printed(_ANSWER))
            except OSError as error:
                name = visible(str(wanted.file))
                raise ForgeError(f"-o {name}: the answer could not be written: {error}") from None
    outside = winner.outside
    outside.draft = outside.draft.become(outside.draft.state, offered=True)
    following = finish_draft(outside, replace(asked, attempts=None), mask)
    winner.fork.connection.close()
    os.close(winner.fork.lock)
    return following
