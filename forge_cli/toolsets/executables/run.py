"""One call of a program: an argv instead of a shell line, an environment without keys, and the result."""

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
    return done.timed_out or done.exit_code != 0


def own_result(stdout: str) -> Any:
    """The result that a program describes in its last line, or the mapping that should be one; else None.

    What it said before is read with a text or a custom one.
    """
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


def _read_result(said: Any) -> Any:
    """A well-known kind, or one of the program's own with ``data``; anything else is only what it said."""
    value = as_result(said)
    if is_misfit(said, value):
        return said
    own = isinstance(value, Custom) and value.kind != KIND
    return value if own or is_well_known_kind(said.get("kind")) else None


class ProgramRun(Struct, frozen=True):
    """How a program ended that had so many seconds."""

    program: str
    done: Finished
    seconds: float
    hint: str | None = None
    """The likely mistake, where it failed."""

    def result(self) -> Any:
        """The result for the model; one that failed is an error with the same result in it."""
        state = outcome.describe_end(self.done, self.seconds)
        hinted = f"{state} (hint: {self.hint})" if self.hint else state
        value = outcome.value_of(KIND, None, self.done, state, f"{hinted}{self.done.refusals()}")
        outcome.result(value, self.done, f"{self.program}: {hinted}")
        return own_result(self.done.stdout) or value


class Runner:
    """Starts programs in the working directory, confined where the worker's commands are."""

    def __init__(
        self, env: ToolsetEnv, names: Sequence[str], calls: Sequence[str], stats: Stats
    ) -> None:
        """``names`` are those of variables, ``calls`` those of tools that programs may call."""
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
        """The command line behind the program; paths become real ones, in a preview without any consent yet."""
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
        """Make the program ready if need be, run it, and say how it ended."""
        start = await self._ready(program)
        argv = [*start.argv, *self.arguments(program, args, context.sandbox)]
        seconds = timeout or program.manifest.timeout
        self._approved.keep(program)
        env = {**clean_environment(self._names), "FORGE_TOOL_DIR": str(program.folder)}
        with self._pipes(context) as pipes:
            done = await self._processes.run(
                argv,
                env={**env, **({CALLS: str(pipes.folder)} if pipes else {})},
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
        hint = (
            find_mistake(program.manifest, args, context.sandbox.zones, done)
            if failed(done)
            else None
        )
        return ProgramRun(program.name, done, seconds, hint)

    @contextmanager
    def _pipes(self, context: ToolContext) -> Iterator[RequestPipes | None]:
        """The socket by which the program can ask for calls of other tools, if the worker lets it call any."""
        if not self._calls:
            yield None
            return
        pipes = RequestPipes(ProgramCalls(self._calls, context).answer)
        try:
            yield pipes
        finally:
            pipes.close()

    async def _ready(self, program: Program) -> ProgramStart:
        """The program to start, once it is compiled or its packages are installed; its failure is one of the tool."""
        try:
            return await language_of(program).start(program, self._tools)
        except ToolError:
            self._stats.called(program.name, ok=False)
            raise


def find_mistake(
    manifest: Manifest, args: Args, zones: Iterable[Zone], done: Finished
) -> str | None:
    """A virtual path that a program got as text and did not find; None where nothing suggests that."""
    if not _MISSING.search(f"{done.stderr}\n{done.stdout}"):
        return None
    names = {zone.name for zone in zones}
    for parameter in manifest.parameters:
        value = args.get(parameter.name)
        if parameter.type == "string" and isinstance(value, str) and _is_virtual(value, names):
            remedy = f"with 'type: path' for '{parameter.name}' in {FILE} it gets the real path"
            return f"{shown(value)} is a path of a zone, and the program got it as it is; {remedy}"
    return None


def _is_virtual(text: str, zones: set[str]) -> bool:
    root, _, rest = text.partition("/")
    return root == "" and rest.partition("/")[0] in zones and not os.path.lexists(text)


class ProgramCalls(Struct, frozen=True):
    """Answers ``forge tools call`` inside of one program: first what a tool takes, then what a call of it gives."""

    names: Collection[str]
    context: ToolContext

    async def answer(self, request: JsonObject) -> JsonObject:
        name, args = str(request.get("tool")), request.get("args")
        if name not in self.names:
            sentence = f"{visible(name)} cannot be called by {self.context.tool}: toolsets.executables.calls lists "
            return self._refusal(name, "blocked", sentence + (", ".join(self.names) or "nothing"))
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
    call, took = made.call, made.duration_ms
    event = ToolResult(call.id, call.name, made.status, made.value, took, made.error)
    return {"result": event.payload()}
