"""One call of a program: an argv instead of a shell line, an environment without keys, and what came of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from forge_cli.core.errors import Stale, ToolError
from forge_cli.core.processes import Finished
from forge_cli.core.results import VALUE_LIMIT, ResultValue
from forge_cli.core.tool import Args
from forge_cli.core.toolset import ToolsetEnv
from forge_cli.sandbox.files.sandbox import Access, Sandbox
from forge_cli.sandbox.isolation.worker import WorkerProcesses
from forge_cli.sandbox.processes.process import clean_environment
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
    """The argv that starts a program, and what it has to read for that besides its own folder."""

    argv: list[str]
    readable: Sequence[Path] = PYTHON


class Runner:
    """Starts programs in the working directory, confined where the worker's commands are."""

    def __init__(self, env: ToolsetEnv, names: Sequence[str], stats: Stats) -> None:
        self._sandbox: Sandbox = env.sandbox
        self._names = names
        self._processes = cast(WorkerProcesses, env.processes)
        self._processes.check()
        self._stats = stats
        self._go = GoBuilder(env.home, self._processes.children)
        self._approved = Approved(env.home)
        self.last: Finished | None = None
        self._uv = Environments(env.home, self._processes.children)

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
        """Make the program ready if need be, run it, and say what came of it; a failure carries its output."""
        start = await self._ready(program)
        argv = [*start.argv, *self.arguments(program, args, judged)]
        seconds = timeout or program.manifest.timeout
        self._approved.keep(program)
        done = self.last = await self._processes.run(
            argv,
            env=self._environment(program),
            timeout=seconds,
            readable=[program.folder, *start.readable],
            limit=KEPT,
        )
        self._stats.called(program.name, ok=not failed(done), duration_ms=done.duration_ms)
        return outcome(program.name, done, seconds)

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
                python, readable = await self._python(program)
                return ProgramStart([python, *flags, str(file)], readable)
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
        return {**clean_environment(self._names), "FORGE_TOOL_DIR": str(program.folder)}


def lacks(program: Program) -> str | None:
    """What this machine does not have and a sound program needs, with the remedy."""
    if program.entrypoint.suffix == GO:
        return None if find_go() else NO_GO.format(program.name)
    return lacking_packages(program)
