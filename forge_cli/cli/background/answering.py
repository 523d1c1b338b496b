"""Answers to requests; a session in the background that was parked starts again with the last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forge_cli.cli.background.start import start_again
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import ForgeError
from forge_cli.record.log import Log
from forge_cli.record.pending import Waiting, answer_request
from forge_cli.record.places import lock_holder
from forge_cli.record.runs import background_run
from forge_cli.record.unfinished import is_unfinished


def answer_and_resume(
    path: Path, request: str, decision: ApprovalDecision
) -> tuple[Log, Waiting, Sequence[Waiting], bool]:
    """Answer a request; return the result of ``answer_request``, and whether the session runs."""
    read, chosen, waiting = answer_request(path, request, decision)
    if chosen.pid is not None:
        return read, chosen, waiting, True
    return read, chosen, waiting, resume_if_answered(path)


def resume_if_answered(path: Path) -> bool:
    """Start a session in the background again if all its requests have an answer."""
    run = background_run(path.stem)
    if run is None or not is_unfinished(run):
        return False
    try:
        start_again(run)
    except ForgeError:
        # Two clients may have answered the last requests at the same time.
        if lock_holder(path) is None:
            raise
    return True
