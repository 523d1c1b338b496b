"""``forge approvals answer``: yes or no to a request of a parked or running session."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from forge_cli.cli.approvals.common import resume_command
from forge_cli.cli.background.answering import answer_and_resume
from forge_cli.cli.notices import warn
from forge_cli.cli.options import new_app
from forge_cli.cli.sessions.common import NAMED
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import UsageError
from forge_cli.core.phrases import has_mark
from forge_cli.core.text import visible
from forge_cli.record.log import LAST_SESSION, Log, find_session
from forge_cli.record.pending import Waiting, last_waiting
from forge_cli.ui.transcript.terminal import LOST

app = new_app()

VIA = "forge approvals answer"
Word = Literal["yes", "no"]


@app.command()
def answer(
    session: Annotated[str, typer.Argument(metavar="SESSION", help=f"A session, {NAMED}.")],
    answer: Annotated[
        list[str],
        typer.Argument(
            metavar="[REQUEST] yes|no [FEEDBACK]",
            help="REQUEST: ID from forge approvals list; optional if only one is pending. "
            "FEEDBACK: sent to the model with a no.",
        ),
    ],
) -> None:
    """Answer a request of a parked session, or of a running one.

    The first answer counts; a later one is refused, and names the first. A running session takes it
    at once. For a parked session it counts when the session is resumed; a session in the background
    starts again with its last answer.
    """
    request, word, feedback = _parse(answer)
    path = None
    if session == LAST_SESSION:  # the last one that waits for an answer, if any does
        path = last_waiting(warn)
    path = path or find_session(session)
    decision = ApprovalDecision(word == "yes", note=feedback or None, via=VIA)
    read, chosen, waiting, runs = answer_and_resume(path, request, decision)
    left = [each for each in waiting if each.answer is None and each is not chosen]
    said = _describe_answer(read, chosen, word, left, runs=runs)
    sys.stdout.write(visible(said, keep="\n") + "\n")


def _parse(words: Sequence[str]) -> tuple[str, Word, str]:
    match words:
        case ["yes" | "no" as word]:
            return "", word, ""
        case ["yes" | "no" as word, feedback] if feedback not in ("yes", "no"):
            return "", word, feedback
        case [request, "yes" | "no" as word]:
            return request, word, ""
        case [request, "yes" | "no" as word, feedback]:
            return request, word, feedback
    raise UsageError(
        f"'{' '.join(words)}' is not an answer", hint="say [REQUEST] yes|no [FEEDBACK]"
    )


def _describe_answer(
    read: Log, chosen: Waiting, word: Word, left: Sequence[Waiting], *, runs: bool
) -> str:
    """Return the recorded answer and the next command to run."""
    said = [f"{word} to {chosen.request.tool_name} ({chosen.id})"]
    if chosen.pid:
        return f"{said[0]}: the session {read.session} has taken it"
    if word == "yes" and has_mark(dict(chosen.request.args)):
        said.append(f"but {LOST}")
    for each in left:
        said.append(f"still waits: {each.id}: {each.request.tool_name}")
    if runs:
        return "\n".join([*said, "the session has started again in the background"])
    return "\n".join([*said, f"then resume with: {resume_command(read)}"])
