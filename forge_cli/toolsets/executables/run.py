"""One call of a program: an argv instead of a shell line, an environment without keys, and the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from forge_cli.core.context import ToolContext
from forge_cli.core.errors import ToolError
from forge_cli.core.processes import Finished
from forge_cli.core.results import OUTPUT_LIMIT, ResultValue
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.tool import Args
from forge_cli.core.toolset import ToolsetEnv
from forge_cli.sandbox.isolation.worker import WorkerProcesses
from forge_cli.sandbox.processes.command import CALLS, clean_environment
from forge_cli.sandbox.processes.requests import RequestPipes
from forge_cli.toolsets.executables.approved import Approved
from forge_cli.toolsets.executables.calls import ProgramCalls
from forge_cli.toolsets.executables.mistakes import find_mistake
from forge_cli.toolsets.executables.registry import Program
from forge_cli.toolsets.executables.results import failed, interrupted, outcome
from forge_cli.toolsets.executables.stats import Stats
from forge_cli.toolsets.executables.toolchain import ProgramStart, Toolchain, language_of


@dataclass(frozen=True)
class ProgramRun:
    """How a program ended that had so many seconds."""

    program: str
    done: Finished
    seconds: float
    hint: str | None = None
    """What may have been the mistake, where it failed."""

    def result(self) -> ResultValue:
        """What the model reads of it; a failure is a ToolError with its output."""
        return outcome(self.program, self.done, self.seconds, self.hint)


class Runner:
    """Starts programs in the working directory, confined where the worker's commands are."""

    def __init__(self, env: ToolsetEnv, names: Sequence[str], calls: Sequence[str], stats: Stats) -> None:
        """``names`` are those of variables, ``calls`` those of tools that programs may call."""
        self._names = names
        self._calls = calls
        self._processes = cast(WorkerProcesses, env.processes)
        self._processes.check()
        self._stats = stats
        self._tools = Toolchain(env.home, self._processes.children)
        self._approved = Approved(env.home)

    def arguments(self, program: Program, args: Args, sandbox: SandboxView, *, preview: bool = False) -> list[str]:
        """The command line behind the program; paths become real ones, in a preview without any consent yet."""
        return [
            parameter.argv_item(
                sandbox.real(args[name], "info" if preview else parameter.access)
                if parameter.type == "path"
                else args[name]
            )
            for parameter in program.manifest.parameters
            if (name := parameter.name) in args
        ]

    async def run(
        self, program: Program, args: Args, context: ToolContext, *, timeout: float | None = None
    ) -> ProgramRun:
        """Make the program ready if need be, run it, and say how it ended."""
        start = await self._ready(program)
        argv = [*start.argv, *self.arguments(program, args, context.sandbox)]
        seconds = timeout or program.manifest.timeout
        self._approved.keep(program)
        with self._pipes(context) as pipes:
            done = await self._processes.run(
                argv,
                env={**self._environment(program), **({CALLS: str(pipes.folder)} if pipes else {})},
                timeout=seconds,
                readable=[program.folder, *start.readable],
                together=OUTPUT_LIMIT,
                pipes=pipes,
                watch=context.show,
                interrupted=interrupted,
            )
        if pipes:
            await pipes.wait_until_served()
            if pipes.failure:
                raise pipes.failure
        self._stats.called(program.name, ok=not failed(done), duration_ms=done.duration_ms)
        hint = find_mistake(program.manifest, args, context.sandbox.zones, done) if failed(done) else None
        return ProgramRun(program.name, done, seconds, hint)

    @contextmanager
    def _pipes(self, context: ToolContext) -> Iterator[RequestPipes | None]:
        """Where the program can ask for calls of other tools, if the worker lets it call any."""
        if not self._calls:
            yield None
            return
        pipes = RequestPipes(ProgramCalls(self._calls, context).answer)
        try:
            yield pipes
        finally:
            pipes.close()

    async def _ready(self, program: Program) -> ProgramStart:
        """What is started, once it is compiled or its packages are installed; a failure to do so is one of the tool."""
        try:
            return await language_of(program).start(program, self._tools)
        except ToolError:
            self._stats.called(program.name, ok=False)
            raise

    def _environment(self, program: Program) -> dict[str, str]:
        return {**clean_environment(self._names), "FORGE_TOOL_DIR": str(program.folder)}
