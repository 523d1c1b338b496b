"""``forge approvals review``: all waiting requests, answered one after the other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from forge_cli.cli.approvals.common import resume_command
from forge_cli.cli.background.answering import answer_and_resume
from forge_cli.cli.notices import warn
from forge_cli.cli.options import new_app
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.phrases import has_mark
from forge_cli.core.text import counted, local_time, visible
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.process.signals import in_loop
from forge_cli.process.stdin import is_interactive
from forge_cli.record.log import Log
from forge_cli.record.pending import Waiting, waiting_requests
from forge_cli.ui.terminal.console import new_console
from forge_cli.ui.terminal.input import LineReader
from forge_cli.ui.terminal.keys import QuestionLeft
from forge_cli.ui.terminal.prompts import ask_on_terminal
from forge_cli.ui.transcript.terminal import LOST

app = new_app()

VIA = "forge approvals review"


@app.command()
def review() -> None:
    """Answer the waiting requests one after the other, as at a prompt.

    A yes counts once. Esc and Ctrl+C stop; the other requests stay open.
    """
    if not is_interactive():
        hint = "run: forge approvals list; then: forge approvals answer SESSION REQUEST yes|no"
        raise UsageError("cannot ask: this is not a terminal", hint=hint)
    waiting = [(path, each) for path, each in waiting_requests(warn) if each.answer is None]
    if not waiting:
        sys.stderr.write("no requests wait for an answer\n")
        return
    left, parked = _ask_all(waiting)
    for log in parked:
        _say(f"then resume with: {resume_command(log)}")
    if left:
        sys.stderr.write(f"{counted(left, 'request')} still waiting\n")


def _ask_all(waiting: Sequence[tuple[Path, Waiting]]) -> tuple[int, list[Log]]:
    """Ask for each request until the user stops.

    Returns the number of unanswered requests, and the parked sessions that got an answer.
    """
    parked: dict[Path, Log] = {}
    left = len(waiting)
    for number, (path, each) in enumerate(waiting, 1):
        sys.stderr.write(
            visible(f"{number}/{len(waiting)}  {path.stem}  {local_time(each.time)}") + "\n"
        )
        if has_mark(dict(each.request.args)) and each.pid is None:
            warn(LOST)
        try:
            decision = in_loop(_ask, each)
        except QuestionLeft:
            break
        except KeyboardInterrupt:
            # without line editing, Ctrl+C leaves the cursor behind the question
            sys.stderr.write("\n")
            break
        try:
            log, chosen, _, runs = answer_and_resume(path, each.id, replace(decision, via=VIA))
        except ForgeError as error:
            warn(str(error))
            continue
        left -= 1
        _say(f"{'yes' if decision.approved else 'no'} to {chosen.request.tool_name} ({chosen.id})")
        if not runs:
            parked[path] = log
    return left, list(parked.values())


async def _ask(waiting: Waiting) -> ApprovalDecision:
    """Ask on the terminal, without offering grants, which would not outlive this process."""
    once = replace(waiting.request, once=True, offers=None, policy_files=None)
    return await ask_on_terminal(once, LineReader(new_console()), PluginHost().renderer)


def _say(text: str) -> None:
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()
