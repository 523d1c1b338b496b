"""The check of a draft: a command that decides if the worker's changes are good."""

from __future__ import annotations

from msgspec.structs import replace

from forge_cli.core.errors import ExitCode, ToolError
from forge_cli.core.interrupt import Interrupted
from forge_cli.core.trial import DraftCheck
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.wiring import OpenWorker
from forge_cli.sandbox.processes.command import bash_argv

CHECK_TIMEOUT = 3600.0
"""Seconds for one check."""
MAX_LINES = 20
"""Lines at the end of the output that are reported."""
_MAX_OUTPUT = 100_000


async def check_draft(opened: OpenWorker, command: str) -> DraftCheck | None:
    """Run a check in the view of the draft, confined as the worker's commands are.

    Return None if an interrupt of the session stopped it.
    """
    processes = opened.assembly.open_processes()
    with opened.wiring.interrupt_signal.scope():
        try:
            done = await processes.run(
                bash_argv(command), timeout=CHECK_TIMEOUT, together=_MAX_OUTPUT
            )
        except ToolError as error:
            return DraftCheck(command, None, str(error))
        output = "\n".join(filter(None, (done.stdout.rstrip(), done.stderr.rstrip())))
        if done.timed_out:
            output += f"\nstopped after {CHECK_TIMEOUT:.0f} seconds"
        lines = output.strip().split("\n")
        exit_code = None if done.timed_out else done.exit_code
        return DraftCheck(command, exit_code, "\n".join(lines[-MAX_LINES:]))
    return None


def with_check(result: WorkerResult, check: DraftCheck | None, reason: str | None) -> WorkerResult:
    """Return the result of a session after its check: it fails if the check does.

    Without a check, the session was interrupted for this ``reason``.
    """
    if check is None:
        stopped = Interrupted(reason or "interrupted")
        return replace(
            result, status=stopped.status, exit_code=stopped.exit_code, output=None, error=None
        )
    if check.passed:
        return result
    return replace(
        result, status="failed", exit_code=ExitCode.FAILED, output=None, error=check.problem()
    )
