"""The result of a command or program: a value for the record, a text for the model, and what people see of it."""

from __future__ import annotations

from forge_cli.core.errors import ToolError, ToolInterrupted, ToolTimeout
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.processes import LISTED, Finished
from forge_cli.core.results import MODEL_LIMIT, Custom, ResultValue, Text
from forge_cli.core.text import counted, cut, visible

READ_AT_ONCE = MODEL_LIMIT - 200
"""Bytes of output in one result: what the model would not get to read of a session comes with the next."""


def result(value: Custom, done: Finished, sentence: str) -> Custom:
    """The value of a command that has ended; for one that failed it is an error, with a sentence, that carries it."""
    if done.timed_out:
        raise ToolTimeout(sentence, value=value)
    if done.exit_code != 0:
        raise ToolError(sentence, value=value)
    return value


def interrupted(kind: str, command: str | None, done: Finished) -> ToolInterrupted:
    """The error of a command that was stopped with its call: it carries what was printed until then, if any."""
    printed = done.stdout or done.stderr
    value = value_of(kind, command, done, "interrupted", INTERRUPTED_CALL) if printed else None
    return ToolInterrupted("interrupted", value=value)


def value_of(kind: str, command: str | None, done: Finished, state: str, told: str) -> Custom:
    """All that is known of a command, or of a program, which has no line; the model is ``told`` the first line."""
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
    """How a command ended, with what may have been the cause, and what it did besides."""
    hint = done.hint(said)
    made = (
        f"\nprotected names appeared: {visible(cut(', '.join(done.appeared), LISTED))}"
        if done.appeared
        else ""
    )
    return (f"{state} ({hint})" if hint else state) + made + done.refusals()


def describe_end(done: Finished, seconds: float | None = None) -> str:
    """How a command ended, whose time limit was so many seconds."""
    if done.timed_out and seconds is not None:
        return f"stopped after {counted(seconds, 'second')}"
    if done.exit_code is not None:
        return f"exit code: {done.exit_code}"
    if done.signal is not None:
        why = f"stopped: {done.exceeded}" if done.exceeded else f"ended by signal {done.signal}"
        return f"exit code: {128 + done.signal} ({why})"
    return "it could not be stopped"


def render(value: Custom) -> ResultValue:
    """The output of a command, and how it ended where that matters."""
    data = value.data
    said = "".join(
        str(data.get(name) or "") for name in ("stdout", "stderr", "output")
    ).removesuffix("\n")
    state = [str(value.summary)] if data.get("exitCode") != 0 or data.get("refusedSockets") else []
    return Text("\n".join(filter(None, [said, *state])) or "(no output)")
