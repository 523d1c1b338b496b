"""One call of a program: words instead of a shell line, an environment without keys, and what came of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from forge_cli.core.errors import ToolError
from forge_cli.core.results import VALUE_LIMIT, ResultValue
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.tool import Args
from forge_cli.core.toolset import ToolsetEnv
from forge_cli.sandbox.processes.process import Finished, Processes, Wrap, clean_environment, unconfined
from forge_cli.toolsets.executables.approved import Approved
from forge_cli.toolsets.executables.golang import NO_GO, GoBuilder
from forge_cli.toolsets.executables.languages import GO, find_go, python_flags, shell
from forge_cli.toolsets.executables.registry import Program
from forge_cli.toolsets.executables.results import failed, outcome
from forge_cli.toolsets.executables.stats import Stats
from forge_cli.toolsets.executables.uv import Environments, check_installed, find_uv, lacking_packages, places

PYTHON = (Path(sys.prefix), Path(sys.base_prefix))
"""Where forge's own interpreter lives: it may be a venv in a folder that is hidden from programs, such as /tmp."""
KEPT = VALUE_LIMIT // 4
"""Bytes that are kept of each stream, so that both fit into one result."""


@dataclass(frozen=True)
class ProgramStart:
    """The words that start a program, and what it has to see for that besides its own folder."""

    words: list[str]
    visible: Sequence[Path] = PYTHON


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
        self._go = GoBuilder(env.home, processes)
        self._approved = Approved(env.home)
        self.last: Finished | None = None
        self._uv = Environments(env.home, processes)

    def arguments(self, program: Program, args: Args, sandbox: SandboxView) -> list[str]:
        """The command line behind the program; paths become real ones."""
        return [
            parameter.word(sandbox.real(args[name], parameter.access) if parameter.type == "path" else args[name])
            for parameter in program.manifest.parameters
            if (name := parameter.name) in args
        ]

    async def run(
        self, program: Program, args: Args, sandbox: SandboxView, *, timeout: float | None = None
    ) -> ResultValue:
        """Make the program ready if need be, run it, and say what came of it; a failure carries its output."""
        start = await self._ready(program)
        words = [*start.words, *self.arguments(program, args, sandbox)]
        seconds = timeout or program.manifest.timeout
        self._approved.keep(program)
        done = self.last = await self._processes.run(
            words,
            cwd=self._workspace,
            env=self._environment(program),
            wrap=self._confined(program, start),
            timeout=seconds,
            limit=KEPT,
        )
        self._stats.called(program.name, ok=not failed(done), duration_ms=done.duration_ms)
        return outcome(program.name, done, seconds)

    def _confined(self, program: Program, start: ProgramStart) -> Wrap:
        """The program can read its own folder, although forge's home around it is hidden."""
        if self._wrap is None or self._wrap is unconfined:
            return unconfined
        return partial(self._wrap, visible=[program.folder, *start.visible])

    async def _ready(self, program: Program) -> ProgramStart:
        """What is started, once it is compiled or its packages are installed; a failure to do so is one of the tool."""
        try:
            return await self._start(program)
        except ToolError:
            self._stats.called(program.name, ok=False)
            raise

    async def _start(self, program: Program) -> ProgramStart:
        file = program.entrypoint
        match file.suffix:
            case ".go":
                return ProgramStart([str(await self._go.binary(program))])
            case ".py":
                flags = python_flags(program.folder, program.files)
                python, visible = await self._python(program)
                return ProgramStart([python, *flags, str(file)], visible)
            case ".sh":
                return ProgramStart([shell(), str(file)])
            case _:
                return ProgramStart([str(file)])

    async def _python(self, program: Program) -> tuple[str, Sequence[Path]]:
        """The interpreter for a source, and where that lives: an environment of its own where it asks for packages."""
        if program.script and (uv := find_uv()):
            own = await self._uv.interpreter(program, uv)
            return str(own), places(own)
        check_installed(program)
        return sys.executable or "python3", PYTHON

    def _environment(self, program: Program) -> dict[str, str]:
        own = {"FORGE_WORKSPACE": str(self._workspace), "FORGE_TOOL_DIR": str(program.folder)}
        return {**clean_environment(self._names), **own}


def lacks(program: Program) -> str | None:
    """What this machine does not have and a sound program needs, with the remedy."""
    if program.entrypoint.suffix == GO:
        return None if find_go() else NO_GO.format(program.name)
    return lacking_packages(program)
