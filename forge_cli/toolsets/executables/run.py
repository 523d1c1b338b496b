"""One call of a program: words instead of a shell line, an environment without keys, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from forge_cli.core.errors import ToolError
from forge_cli.core.results import VALUE_LIMIT, ResultValue
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.tool import Args
from forge_cli.core.toolset import ToolsetEnv
from forge_cli.sandbox.processes.process import Finished, Processes, Wrap, clean_environment, unconfined
from forge_cli.toolsets.executables.approved import Approved
from forge_cli.toolsets.executables.registry import Program
from forge_cli.toolsets.executables.results import failed, outcome
from forge_cli.toolsets.executables.stats import Stats
from forge_cli.toolsets.executables.toolchain import ProgramStart, Toolchain, language_of

KEPT = VALUE_LIMIT // 4
"""Bytes that are kept of each stream, so that both fit into one result."""


@dataclass(frozen=True)
class ProgramRun:
    """How a program ended that had so many seconds."""

    program: str
    done: Finished
    seconds: float

    def result(self) -> ResultValue:
        """What the model reads of it; a failure is a ToolError with its output."""
        return outcome(self.program, self.done, self.seconds)


class Runner:
    """Starts programs in the working directory, confined where the worker's commands are."""

    def __init__(
        self, env: ToolsetEnv, names: Sequence[str], processes: Processes, wrap: Wrap | None, stats: Stats
    ) -> None:
        self._workspace = env.workspace
        self._names = names
        self._processes = processes
        self._wrap: Any = wrap
        self._stats = stats
        self._tools = Toolchain(env.home, processes)
        self._approved = Approved(env.home)

    def arguments(self, program: Program, args: Args, sandbox: SandboxView) -> list[str]:
        """The command line behind the program; paths become real ones."""
        return [
            parameter.word(sandbox.real(args[name], parameter.access) if parameter.type == "path" else args[name])
            for parameter in program.manifest.parameters
            if (name := parameter.name) in args
        ]

    async def run(
        self, program: Program, args: Args, sandbox: SandboxView, *, timeout: float | None = None
    ) -> ProgramRun:
        """Make the program ready if need be, run it, and say how it ended."""
        start = await self._ready(program)
        words = [*start.words, *self.arguments(program, args, sandbox)]
        seconds = timeout or program.manifest.timeout
        self._approved.keep(program)
        done = await self._processes.run(
            words,
            cwd=self._workspace,
            env=self._environment(program),
            wrap=self._confined(program, start),
            timeout=seconds,
            limit=KEPT,
        )
        self._stats.called(program.name, ok=not failed(done), duration_ms=done.duration_ms)
        return ProgramRun(program.name, done, seconds)

    def _confined(self, program: Program, start: ProgramStart) -> Wrap:
        """The program can read its own folder, although forge's home around it is hidden."""
        if self._wrap is None or self._wrap is unconfined:
            return unconfined
        return partial(self._wrap, visible=[program.folder, *start.visible])

    async def _ready(self, program: Program) -> ProgramStart:
        """What is started, once it is compiled or its packages are installed; a failure to do so is one of the tool."""
        try:
            return await language_of(program).start(program, self._tools)
        except ToolError:
            self._stats.called(program.name, ok=False)
            raise

    def _environment(self, program: Program) -> dict[str, str]:
        own = {"FORGE_WORKSPACE": str(self._workspace), "FORGE_TOOL_DIR": str(program.folder)}
        return {**clean_environment(self._names), **own}
