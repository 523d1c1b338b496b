"""Results of commands and programs: a value for the record, and texts for the model and people."""

from __future__ import annotations

from forge_cli.core.errors import ToolError, ToolInterrupted, ToolTimeout
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.processes import LISTED, Finished
from forge_cli.core.results import MODEL_LIMIT, Custom, ResultValue, Text
from forge_cli.core.text import counted, cut, visible
from forge_cli.sandbox.processes.view import rename_hint

# Leaves room for the end of the command.
READ_AT_ONCE = MODEL_LIMIT - 200
"""Bytes of output in one result; the rest of a session's output comes with the next."""


def result(value: Custom, done: Finished, sentence: str) -> Custom:
    """Return the value of a command that succeeded.

    For a failed one, raise an error with the value.
    """
    if done.timed_out:
        raise ToolTimeout(sentence, value=value)
    if done.exit_code != 0:
        raise ToolError(sentence, value=value)
    return value


def interrupted(kind: str, command: str | None, done: Finished) -> ToolInterrupted:
    """Return the error of a stopped command, with what it had printed."""
    printed = done.stdout or done.stderr
    value = value_of(kind, command, done, "interrupted", INTERRUPTED_CALL) if printed else None
    return ToolInterrupted("interrupted", value=value)


def value_of(kind: str, command: str | None, done: Finished, state: str, told: str) -> Custom:
    """Return all that is known of a command or program; the model reads ``told`` first."""
    data = {
        **({} if command is None else {"command": command}),
        "exitCode": done.exit_code,
        "signal": done.signal,
        "stdout": done.stdout,
        "stderr": done.stderr,
        "truncated": done.truncated,
        "timedOut": done.timed_out,
        "durationMs": done.duration_ms,
        **({"refusedSockets": list(done.sockets)} if done.sockets else {}),
    }
    errors = f"\nstderr:\n{done.stderr}" if done.stderr else ""
    read = cut(f"{told}\n{done.stdout}{errors}", READ_AT_ONCE)
    return Custom(kind, data, summary=state, model_text=read)


def with_hint(state: str, done: Finished, said: str) -> str:
    """Return how a command ended, with a possible cause and its side effects."""
    hint = done.hint(said)
    if hint is None and done.exit_code != 0:
        hint = rename_hint(said)
    if hint:
        state = f"{state} ({hint})"
    if done.appeared:
        names = visible(cut(", ".join(done.appeared), LISTED))
        state = f"{state}\nprotected names appeared: {names}"
    return state + done.refusals()


def describe_end(done: Finished, seconds: float | None = None) -> str:
    """Return how a command ended, given its time limit."""
    if done.timed_out and seconds is not None:
        return f"stopped after {counted(seconds, 'second')}"
    if done.exit_code is not None:
        return f"exit code: {done.exit_code}"
    if done.signal is not None:
        why = f"stopped: {done.exceeded}" if done.exceeded else f"ended by signal {done.signal}"
        return f"exit code: {128 + done.signal} ({why})"
    return "it could not be stopped"


def render(value: Custom) -> ResultValue:
    """Return the output of a command, and how it ended if that matters."""
    data = value.data
    printed = (str(data.get(name) or "") for name in ("stdout", "stderr", "output"))
    said = "".join(printed).removesuffix("\n")
    matters = data.get("exitCode") != 0 or data.get("refusedSockets")
    state = [str(value.summary)] if matters else []
    return Text("\n".join(filter(None, [said, *state])) or "(no output)")
