"""``forge approvals answer``: yes or no to a request, written to a parked log or taken by the session at work."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from forge_cli.cli.options import new_app
from forge_cli.cli.sessions.common import NAMED
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.text import visible
from forge_cli.record.answering import answer_request, resume_command
from forge_cli.record.log import Log, find_session
from forge_cli.record.pending import Waiting
from forge_cli.sandbox.secrets import has_mark
from forge_cli.ui.transcript.terminal import LOST

app = new_app()

VIA = "forge approvals answer"


class YesOrNo(StrEnum):
    yes = "yes"
    no = "no"


@app.command()
def answer(
    session: Annotated[str, typer.Argument(metavar="SESSION", help=f"A session, {NAMED}.")],
    request: Annotated[str, typer.Argument(metavar="REQUEST", help="One of its requests, as the list shows them.")],
    word: Annotated[YesOrNo, typer.Argument(metavar="yes|no")],
    feedback: Annotated[
        str | None, typer.Argument(metavar="FEEDBACK", help="After no: words for the model to read.")
    ] = None,
) -> None:
    """Answer a request of a parked session, or of one at work.

    A session that asks at its prompt takes the answer at once, if nobody was faster. For a parked one it counts when
    that is resumed; until then a later answer replaces an earlier one.
    """
    decision = ApprovalDecision(word is YesOrNo.yes, note=feedback or None, via=VIA)
    read, chosen, waiting = answer_request(find_session(session), request, decision)
    left = [each for each in waiting if each.answer is None and each is not chosen]
    sys.stdout.write(visible(_describe_answer(read, chosen, word, left), keep="\n") + "\n")


def _describe_answer(read: Log, chosen: Waiting, word: YesOrNo, left: Sequence[Waiting]) -> str:
    """What was answered, and what to do next."""
    said = [f"{word.value} to {chosen.request.tool_name} ({chosen.id})"]
    if chosen.pid:
        return f"{said[0]}: the session {read.session} has taken it"
    if word is YesOrNo.yes and has_mark(dict(chosen.request.args)):
        said.append(f"but {LOST}")
    for each in left:
        said.append(f"still waits: {each.id}: {each.request.tool_name}")
    return "\n".join([*said, f"then resume with: {resume_command(read)}"])
