"""A call of a program: arguments without a shell, an environment without keys, the result."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.calls import OutcomeStatus, ToolCall, ToolOutcome
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import ToolError
from forge_cli.core.events import ToolResult
from forge_cli.core.processes import Finished
from forge_cli.core.results import (
    OUTPUT_LIMIT,
    Custom,
    Text,
    as_result,
    is_misfit,
    is_well_known_kind,
)
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.text import visible
from forge_cli.core.tool import Args
from forge_cli.core.wire import JsonObject, jsonable
from forge_cli.core.zones import Zone
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes import outcome
from forge_cli.sandbox.processes.command import CALLS, clean_environment
from forge_cli.sandbox.processes.requests import RequestPipes
from forge_cli.sandbox.worker_processes import WorkerProcesses
from forge_cli.schema.toolset import ToolsetEnv
from forge_cli.toolsets.executables.manage import Approved
from forge_cli.toolsets.executables.manifest import FILE, Manifest
from forge_cli.toolsets.executables.registry import Program
from forge_cli.toolsets.executables.stats import Stats
from forge_cli.toolsets.executables.toolchain import ProgramStart, Toolchain, language_of

KIND = "executable.run"
_MISSING = re.compile(
    r"no such file|not found|does(?: not|n't) exist|cannot find|ENOENT", re.IGNORECASE
)


def failed(done: Finished) -> bool:
    """Return True if a program timed out or had an exit code other than 0."""
    return done.timed_out or done.exit_code != 0


def own_result(stdout: str) -> Any:
    """Return the result that a program prints as JSON in its last line, or None.

    A text or custom result is combined with the output before that line. A mapping that is almost a
    well-known kind is returned as it is, so that a warning can name it.
    """
    before, _, last = stdout.rstrip("\n").rpartition("\n")
    if not last.startswith("{"):
        return None
    try:
        value = _read_result(jsonable(json.loads(last)))
    except (ValueError, RecursionError):  # the line is not JSON, or nested too deeply
        return None
    match value:
        case Custom() if before.strip():
            return replace(value, model_text=f"{before}\n{value.text()}")
        case Text(content=content) if before.strip():
            return replace(value, content=f"{before}\n{content}")
        case _:
            return value


def _read_result(said: Any) -> Any:
    """Return a result of a well-known kind or a custom kind with ``data``; None for other JSON."""
    value = as_result(said)
    if is_misfit(said, value):
        return said
    # A program must not imitate the result that forge makes of a run.
    own = isinstance(value, Custom) and value.kind != KIND
    return value if own or is_well_known_kind(said.get("kind")) else None


class ProgramRun(Struct, frozen=True):
    """How a program ended."""

    program: str
    done: Finished
    seconds: float
    hint: str | None = None
    """The likely mistake, if the program failed."""

    def result(self) -> Any:
        """Return the result for the model; raise an error that carries the result if it failed."""
        state = outcome.describe_end(self.done, self.seconds)
        hinted = f"{state} (hint: {self.hint})" if self.hint else state
        value = outcome.value_of(KIND, None, self.done, state, f"{hinted}{self.done.refusals()}")
        outcome.result(value, self.done, f"{self.program}: {hinted}")
        return own_result(self.done.stdout) or value


class Runner:
    """Runs programs in the working directory, confined like the worker's commands."""

    def __init__(
        self, env: ToolsetEnv, names: Sequence[str], calls: Sequence[str], stats: Stats
    ) -> None:
        """Pass on the environment variables ``names``, and allow ``calls``, tools to call."""
        self._names = names
        self._calls = calls
        self._processes = cast(WorkerProcesses, env.processes)
        self._processes.check()
        self._stats = stats
        self._tools = Toolchain(env.home, self._processes.children)
        self._approved = Approved(env.home)

    def arguments(
        self, program: Program, args: Args, sandbox: SandboxView, *, preview: bool = False
    ) -> list[str]:
        """Return the arguments of the program with real paths.

        A preview needs no consent for the paths yet, and asks the sandbox for information only.
        """
        items = []
        for parameter in program.manifest.parameters:
            if parameter.name not in args:
                continue
            value = args[parameter.name]
            if parameter.type == "path":
                value = sandbox.real(value, "info" if preview else parameter.access)
            items.append(parameter.argv_item(value))
        return items

    async def run(
        self, program: Program, args: Args, context: ToolContext, *, timeout: float | None = None
    ) -> ProgramRun:
        """Build the program if needed, run it and return how it ended."""
        start = await self._ready(program)
        argv = [*start.argv, *self.arguments(program, args, context.sandbox)]
        seconds = timeout or program.manifest.timeout
        self._approved.keep(program)
        env = {**clean_environment(self._names), "FORGE_TOOL_DIR": str(program.folder)}
        with self._pipes(context) as pipes:
            if pipes:
                env[CALLS] = str(pipes.folder)
            done = await self._processes.run(
                argv,
                env=env,
                timeout=seconds,
                readable=[program.folder, *start.readable],
                together=OUTPUT_LIMIT,
                pipes=pipes,
                watch=context.show,
                interrupted=partial(outcome.interrupted, KIND, None),
            )
        if pipes:
            await pipes.wait_until_served()
            if pipes.failure:
                raise pipes.failure
        self._stats.called(program.name, ok=not failed(done), duration_ms=done.duration_ms)
        hint = None
        if failed(done):
            hint = find_mistake(program.manifest, args, context.sandbox.zones, done)
        return ProgramRun(program.name, done, seconds, hint)

    @contextmanager
    def _pipes(self, context: ToolContext) -> Iterator[RequestPipes | None]:
        """Yield the socket for calls of other tools; None if programs may call none."""
        if not self._calls:
            yield None
            return
        pipes = RequestPipes(ProgramCalls(self._calls, context).answer)
        try:
            yield pipes
        finally:
            pipes.close()

    async def _ready(self, program: Program) -> ProgramStart:
        """Compile a program or install its packages; count a failure as a failed call."""
        try:
            return await language_of(program).start(program, self._tools)
        except ToolError:
            self._stats.called(program.name, ok=False)
            raise


def find_mistake(
    manifest: Manifest, args: Args, zones: Iterable[Zone], done: Finished
) -> str | None:
    """Return a hint if a program failed to find a virtual path that it got as text."""
    if not _MISSING.search(f"{done.stderr}\n{done.stdout}"):
        return None
    names = {zone.name for zone in zones}
    for parameter in manifest.parameters:
        value = args.get(parameter.name)
        if parameter.type == "string" and isinstance(value, str) and _is_virtual(value, names):
            remedy = f"declare '{parameter.name}' with 'type: path' in {FILE} to pass the real path"
            return f"the program got the virtual path {shown(value)} as text; {remedy}"
    return None


def _is_virtual(text: str, zones: set[str]) -> bool:
    root, _, rest = text.partition("/")
    # A real path may begin with the name of a zone, too.
    return root == "" and rest.partition("/")[0] in zones and not os.path.lexists(text)


class ProgramCalls(Struct, frozen=True):
    """Answers ``forge tools call`` inside a program: the schema of a tool, or a call of it."""

    names: Collection[str]
    context: ToolContext

    async def answer(self, request: JsonObject) -> JsonObject:
        name, args = str(request.get("tool")), request.get("args")
        if name not in self.names:
            listed = ", ".join(self.names) or "nothing"
            sentence = (
                f"{self.context.tool} may not call {visible(name)}: "
                f"toolsets.executables.calls lists {listed}"
            )
            return self._refusal(name, "blocked", sentence)
        schema = self.context.inner.schema(name) if self.context.inner else None
        if schema is None:
            return self._refusal(name, "not_found", f"there is no tool '{visible(name)}'")
        if not isinstance(args, dict):
            return {"schema": schema}
        return _result(await self.context.call(name, args))

    def _refusal(self, name: str, status: OutcomeStatus, sentence: str) -> JsonObject:
        return _result(
            ToolOutcome.failed(ToolCall(self.context.call_id, name, {}), status, sentence)
        )


def _result(made: ToolOutcome) -> JsonObject:
    call = made.call
    event = ToolResult(call.id, call.name, made.status, made.value, made.duration_ms, made.error)
    return {"result": event.payload()}
