"""The result of a program: how it ended and what it said, or the result that it describes itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from forge_cli.core.errors import ToolError, ToolInterrupted, ToolTimeout
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.processes import Finished
from forge_cli.core.results import (
    MODEL_LIMIT,
    Custom,
    ResultValue,
    Text,
    as_result,
    is_well_known_kind,
)
from forge_cli.core.text import counted, cut
from forge_cli.core.wire import jsonable

KIND = "executable.run"


def outcome(name: str, done: Finished, seconds: float, hint: str | None = None) -> ResultValue:
    """The result of a program that has ended; one that failed is an error with the same result in it."""
    state = f"stopped after {counted(seconds, 'second')}" if done.timed_out else _describe_end(done)
    hinted = f"{state} (hint: {hint})" if hint else state
    value = _value(done, state, f"{hinted}{done.refusals()}")
    if failed(done):
        failure = ToolTimeout if done.timed_out else ToolError
        raise failure(f"{name}: {hinted}", value=value)
    return own_result(done.stdout) or value


def interrupted(done: Finished) -> ToolInterrupted:
    """The error of a program that was stopped with its call: it carries what was printed until then, if any."""
    printed = done.stdout or done.stderr
    return ToolInterrupted("interrupted", value=_value(done, "interrupted", INTERRUPTED_CALL) if printed else None)


def _value(done: Finished, state: str, told: str) -> Custom:
    data = {
        "exitCode": done.exit_code,
        "signal": done.signal,
        "stdout": done.stdout,
        "stderr": done.stderr,
        "durationMs": done.duration_ms,
        "timedOut": done.timed_out,
        "truncated": done.truncated,
    }
    errors = f"\nstderr:\n{done.stderr}" if done.stderr else ""
    read = cut(f"{told}\n{done.stdout}{errors}", MODEL_LIMIT - 200)
    return Custom(KIND, data, summary=state, model_text=read)


def failed(done: Finished) -> bool:
    return done.timed_out or done.exit_code != 0


def own_result(stdout: str) -> ResultValue | None:
    """The result that a program describes in its last line; what it said before is read with a text or a custom one."""
    before, _, last = stdout.rstrip("\n").rpartition("\n")
    if not last.startswith("{"):
        return None
    try:
        value = _read_result(jsonable(json.loads(last)))
    except (ValueError, RecursionError):
        return None
    match value:
        case Custom() if before.strip():
            return replace(value, model_text=f"{before}\n{value.text()}")
        case Text(content=content) if before.strip():
            return replace(value, content=f"{before}\n{content}")
        case _:
            return value


def _read_result(said: Any) -> ResultValue | None:
    """A well-known kind, or one of the program's own with ``data``; anything else is only what it said."""
    value = as_result(said)
    own = isinstance(value, Custom) and value.kind != KIND
    return value if own or is_well_known_kind(said.get("kind")) else None


def _describe_end(done: Finished) -> str:
    if done.exceeded:
        return f"stopped: {done.exceeded}"
    if done.exit_code is not None:
        return f"exit code: {done.exit_code}"
    return f"ended by signal {done.signal}" if done.signal is not None else "it could not be stopped"


def render(value: Custom) -> ResultValue:
    """The output of a program, and how it ended where that matters."""
    data = value.data
    said = "".join(str(data.get(name) or "") for name in ("stdout", "stderr")).removesuffix("\n")
    state = [] if data.get("exitCode") == 0 else [str(value.summary)]
    return Text("\n".join(filter(None, [said, *state])) or "(no output)")
