"""What a hook says, and what that makes of a verdict: at least as strict as before, whatever it says; pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.errors import Mark
from forge_cli.core.observers import HookAnswer
from forge_cli.core.processes import Finished
from forge_cli.core.text import counted, cut, readable

SECONDS = 10.0
"""That a hook has."""
LARGEST = 64 * 1024
"""Characters of what a hook prints."""
NOTE = 1000
"""Characters of its words that are kept."""
BLOCKS = 2
"""The exit code that blocks."""
_SHAPE = '{"verdict": "ask"|"blocked", "note": "..."}'


class HookFailed(Exception):
    """A hook has not said anything that could be understood; the sentence says why."""


@dataclass(frozen=True)
class Heard:
    """What came of one hook: an answer, or why there is none."""

    answer: HookAnswer
    failure: str | None = None


def read_finished(done: Finished) -> HookAnswer:
    """What a command says by its exit code and its output; HookFailed where it says nothing that has a meaning."""
    if done.timed_out:
        raise HookFailed(f"it did not end within {counted(SECONDS, 'second')}")
    if done.exit_code == BLOCKS:
        return HookAnswer("blocked", _words(done.stderr))
    if done.exit_code != 0:
        how = f"exit code {done.exit_code}" if done.signal is None else f"signal {done.signal}"
        words = _words(done.stderr)
        raise HookFailed(f"it ended with {how}{f': {words}' if words else ''}")
    text = done.stdout.strip()
    if done.truncated or len(text) > LARGEST:
        raise HookFailed(f"it printed more than {LARGEST // 1024} KiB")
    return HookAnswer() if not text else _read_json(text)


def _read_json(text: str) -> HookAnswer:
    try:
        said: Any = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    return checked(HookAnswer(**said) if isinstance(said, dict) and said.keys() <= {"verdict", "note"} else said)


def checked(said: Any) -> HookAnswer:
    """An answer that is one, with a note that can be shown."""
    if not isinstance(said, HookAnswer) or said.verdict not in (None, "ask", "blocked"):
        raise HookFailed(f"it said something else than {_SHAPE}")
    if said.note is not None and not isinstance(said.note, str):
        raise HookFailed(f"it said something else than {_SHAPE}")
    return HookAnswer(said.verdict, None if said.note is None else _words(said.note))


def _words(text: str) -> str | None:
    return cut(readable(text.strip()), NOTE, "end") or None


def tighten(verdict: Verdict, heard: Heard, title: str, rule: str, where: Mark | None) -> Verdict:
    """The verdict after a ``before_tool`` hook; one that failed means ask."""
    if heard.failure is None and heard.answer.verdict is None:
        return verdict
    wanted = Approval.ASK if heard.failure is not None else Approval(heard.answer.verdict)
    note = f": {heard.answer.note}" if heard.answer.note else ""
    reason = f"the hook {title} says {wanted.value}{note}"
    if heard.failure is not None:
        reason = f"the hook {title} failed ({heard.failure}), so it asks"
    if wanted.stricter_than(verdict.approval):
        return replace(verdict, approval=wanted, reason=reason, rule=rule, where=where, by="rule", grants=())
    if wanted is verdict.approval:
        details = (*verdict.details, f"{where}: {reason}" if where else reason)
        return replace(verdict, reason=f"{verdict.reason}; {reason}", details=details, grants=())
    return verdict
