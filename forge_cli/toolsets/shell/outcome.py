"""The result of a command: a value for the record, a text for the model, and what people see of it."""

from __future__ import annotations

from forge_cli.core.errors import ToolError, ToolInterrupted, ToolTimeout
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.processes import LISTED, Finished
from forge_cli.core.results import MODEL_LIMIT, Custom, ResultValue, Text
from forge_cli.core.text import counted, cut, visible

RESULT, SESSION = "shell.result", "shell.session"
READ_AT_ONCE = MODEL_LIMIT - 200
"""Bytes of a session's output in one result: what the model would not get to read comes with the next."""


def result(command: str, done: Finished, seconds: float) -> Custom:
    """A command that has ended; one that failed is an error that carries its output."""
    state = f"stopped after {counted(seconds, 'second')}" if done.timed_out else describe_end(done)
    value = _value(command, done, state, _with_hint(state, done, done.stderr))
    if done.timed_out:
        raise ToolTimeout(state, value=value)
    if done.exit_code != 0:
        raise ToolError(state, value=value)
    return value


def interrupted(command: str, done: Finished) -> ToolInterrupted:
    """The error of a command that was stopped with its call: it carries what was printed until then, if any."""
    value = _value(command, done, "interrupted", INTERRUPTED_CALL) if done.stdout or done.stderr else None
    return ToolInterrupted("interrupted", value=value)


def interrupted_session(output: str) -> ToolInterrupted:
    """The error of a session that was stopped with the call that started it."""
    data = {"sessionId": None, "output": output, "running": False}
    value = Custom(SESSION, data, summary="interrupted", model_text=f"{INTERRUPTED_CALL}\n{output}")
    return ToolInterrupted("interrupted", value=value if output else None)


def _value(command: str, done: Finished, state: str, told: str) -> Custom:
    data = {
        "command": command,
        "exitCode": done.exit_code,
        "signal": done.signal,
        "stdout": done.stdout,
        "stderr": done.stderr,
        "truncated": done.truncated,
        "timedOut": done.timed_out,
        "durationMs": done.duration_ms,
    }
    errors = f"\nstderr:\n{done.stderr}" if done.stderr else ""
    read = cut(f"{told}\n{done.stdout}{errors}", READ_AT_ONCE)
    return Custom(RESULT, data, summary=state, model_text=read)


def open_session(number: int, output: str, *, running: bool) -> Custom:
    """A session that can be read again."""
    state = f"session_id: {number}{'' if running else ' (it has ended; more output waits)'}"
    data = {"sessionId": number, "output": output, "running": running}
    return Custom(SESSION, data, summary=state, model_text=f"{state}\n{output}")


def ended_session(output: str, done: Finished) -> Custom:
    """The last of a session; one that failed is an error that carries its output."""
    state = describe_end(done)
    data = {"sessionId": None, "output": output, "running": False, "exitCode": done.exit_code, "signal": done.signal}
    value = Custom(SESSION, data, summary=state, model_text=f"{_with_hint(state, done, output)}\n{output}")
    if done.exit_code != 0:
        raise ToolError(state, value=value)
    return value


def _with_hint(state: str, done: Finished, said: str) -> str:
    hint = done.hint(said)
    made = f"\nprotected names appeared: {visible(cut(', '.join(done.appeared), LISTED))}" if done.appeared else ""
    return (f"{state} ({hint})" if hint else state) + made + done.refusals()


def describe_end(done: Finished) -> str:
    if done.exit_code is not None:
        return f"exit code: {done.exit_code}"
    if done.signal is not None:
        why = f"stopped: {done.exceeded}" if done.exceeded else f"ended by signal {done.signal}"
        return f"exit code: {128 + done.signal} ({why})"
    return "it could not be stopped"


def render(value: Custom) -> ResultValue:
    """The output of a command, and how it ended where that matters."""
    data = value.data
    said = "".join(str(data.get(name) or "") for name in ("stdout", "stderr", "output")).removesuffix("\n")
    state = [] if data.get("exitCode") == 0 else [str(value.summary)]
    return Text("\n".join(filter(None, [said, *state])) or "(no output)")
