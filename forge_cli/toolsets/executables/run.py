"""One call of a program: words instead of a shell line, an environment without keys, and what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from forge_cli.core.errors import Stale, ToolError
from forge_cli.core.results import MODEL_LIMIT, VALUE_LIMIT, Custom, ResultValue, Text, as_result, cut
from forge_cli.core.tool import Args
from forge_cli.core.toolset import ToolsetEnv
from forge_cli.sandbox.paths import Access, Sandbox
from forge_cli.sandbox.process import Finished, Processes, Wrap, clean_environment, unconfined
from forge_cli.toolsets.executables.golang import GoBuilder
from forge_cli.toolsets.executables.languages import GO, interpreter
from forge_cli.toolsets.executables.registry import Program

KIND = "executable.run"
PYTHON = (Path(sys.prefix), Path(sys.base_prefix))
"""Where forge's own interpreter lives: it may be a venv in a folder that is hidden from programs, such as /tmp."""
KEPT = VALUE_LIMIT // 4
"""Bytes that are kept of each stream, so that both fit into one result."""


class Runner:
    """Starts programs in the working directory, confined where the worker's commands are."""

    def __init__(self, env: ToolsetEnv, names: Sequence[str], processes: Processes, wrap: Wrap | None) -> None:
        self._sandbox: Sandbox = env.sandbox
        self._workspace = env.workspace
        self._names = names
        self._processes = processes
        self._wrap: Any = wrap
        self._go = GoBuilder(env.home, processes)

    def arguments(self, program: Program, args: Args, judged: Mapping[str, str] | None = None) -> list[str]:
        """The command line behind the program; paths become real ones, once it is sure that they can be used."""
        return [
            parameter.word(self._real(args[name], (judged or {}).get(name)) if parameter.type == "path" else args[name])
            for parameter in program.manifest.parameters
            if (name := parameter.name) in args
        ]

    def _real(self, path: str, judged: str | None) -> Path:
        if judged is not None and self._sandbox.resolve(path) != judged:
            raise Stale(f"{path} leads elsewhere than when the call was judged")
        folder = self._sandbox.exists(path) and self._sandbox.stat(path).kind == "directory"
        return self._sandbox.real(path, Access.LIST if folder else Access.READ)

    async def run(
        self, program: Program, args: Args, *, timeout: float | None = None, judged: Mapping[str, str] | None = None
    ) -> ResultValue:
        """Compile the program if need be, run it, and say what came of it; a failure carries its output."""
        words = [*await self._start(program), *self.arguments(program, args, judged)]
        seconds = timeout or program.manifest.timeout
        done = await self._processes.run(
            words,
            cwd=self._workspace,
            env=self._environment(program),
            wrap=self._confined(program),
            timeout=seconds,
            limit=KEPT,
        )
        return outcome(program.name, done, seconds)

    def _confined(self, program: Program) -> Wrap:
        """The program can read its own folder, although forge's home around it is hidden."""
        if self._wrap is None or self._wrap is unconfined:
            return unconfined
        return partial(self._wrap, visible=[program.folder, *PYTHON])

    async def _start(self, program: Program) -> list[str]:
        if program.entrypoint.suffix == GO:
            return [str(await self._go.binary(program))]
        return [*interpreter(program.entrypoint.suffix), str(program.entrypoint)]

    def _environment(self, program: Program) -> dict[str, str]:
        own = {"FORGE_WORKSPACE": str(self._workspace), "FORGE_TOOL_DIR": str(program.folder)}
        return {**clean_environment(self._names), **own}


def outcome(name: str, done: Finished, seconds: float) -> ResultValue:
    """The result of a program that has ended; one that failed is an error with the same result in it."""
    state = f"stopped after {seconds:g} seconds" if done.timed_out else _ended(done)
    data = {
        "exitCode": done.exit_code,
        "signal": done.signal,
        "stdout": _fitting(done.stdout),
        "stderr": _fitting(done.stderr),
        "durationMs": done.duration_ms,
        "timedOut": done.timed_out,
        "truncated": done.truncated,
    }
    errors = f"\nstderr:\n{done.stderr}" if done.stderr else ""
    value = Custom(KIND, data, summary=state, model_text=cut(f"{state}\n{done.stdout}{errors}", MODEL_LIMIT - 200))
    if done.timed_out or done.exit_code != 0:
        raise ToolError(f"{name}: {state}", value=value)
    return _own_result(done.stdout) or value


def _own_result(stdout: str) -> Custom | None:
    """The result that a program itself describes in its last line; what it said before that is read as well."""
    before, _, last = stdout.rstrip("\n").rpartition("\n")
    if not last.startswith("{"):
        return None
    try:
        value = as_result(json.loads(last))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, Custom):
        return None
    return replace(value, model_text=f"{before}\n{value.text()}") if before.strip() else value


def _ended(done: Finished) -> str:
    if done.exit_code is not None:
        return f"exit code: {done.exit_code}"
    return f"ended by signal {done.signal}" if done.signal is not None else "it could not be stopped"


def _fitting(text: str) -> str:
    """The text, cut further where its JSON is much longer than the text itself."""
    while len(json.dumps(text, ensure_ascii=False)) > VALUE_LIMIT // 4 + VALUE_LIMIT // 16:
        text = cut(text, len(text) * 3 // 4)
    return text


def shown(value: Custom) -> ResultValue:
    """What a program said, and how it ended where that matters."""
    data = value.data
    said = "".join(str(data.get(name) or "") for name in ("stdout", "stderr")).removesuffix("\n")
    state = [] if data.get("exitCode") == 0 else [str(value.summary)]
    return Text("\n".join(filter(None, [said, *state])) or "(no output)")
