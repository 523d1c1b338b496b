"""The languages that programs are written in, by the suffix of the source: what each needs, checks and starts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.toolsets.executables.build import compile_go, install_packages, read_python, read_shell
from forge_cli.toolsets.executables.golang import NO_GO, GoBuilder
from forge_cli.toolsets.executables.languages import GO, PYTHON, SHELL, find_go, python_flags, shell
from forge_cli.toolsets.executables.registry import Program
from forge_cli.toolsets.executables.uv import Environments, check_installed, find_uv, missing_packages, places

INTERPRETER = (Path(sys.prefix), Path(sys.base_prefix))
"""Where forge's own interpreter lives: it may be a venv in a folder that is hidden from programs, such as /tmp."""


@dataclass(frozen=True)
class ProgramStart:
    """The argv that starts a program, and what it has to read for that besides its own folder."""

    argv: list[str]
    readable: Sequence[Path] = INTERPRETER


class Toolchain:
    """What makes the programs of one home ready: a compiler, environments with packages, interpreters."""

    def __init__(self, home: Path, processes: ChildProcesses) -> None:
        self.processes = processes
        self.go = GoBuilder(home, processes)
        self.packages = Environments(home, processes)


class Language(Protocol):
    """How programs with one kind of source are treated."""

    note: str
    """What whoever approves a call should know of its start."""

    def lacks(self, program: Program) -> str | None:
        """What this machine does not have and a sound program needs, with the remedy."""

    async def build(self, program: Program, tools: Toolchain) -> str:
        """Make a program ready without starting it, and say what was done; a ToolError says what is wrong with it."""

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        """What is started, once the program is compiled or its packages are installed."""


class GoLanguage:
    """Compiled on first use."""

    note = "compiled on first use"

    def lacks(self, program: Program) -> str | None:
        return None if find_go() else NO_GO.format(program.name)

    async def build(self, program: Program, tools: Toolchain) -> str:
        return await compile_go(program, tools.go)

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        return ProgramStart([str(await tools.go.binary(program))])


class PythonLanguage:
    """Started by forge's own interpreter, or by that of an environment where the source asks for packages."""

    note = ""

    def lacks(self, program: Program) -> str | None:
        return missing_packages(program)

    async def build(self, program: Program, tools: Toolchain) -> str:
        read_python(program)
        return await install_packages(program, tools.packages)

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        argv = [*python_flags(program.folder, program.files), str(program.entrypoint)]
        if program.script and (uv := find_uv()):
            own = await tools.packages.interpreter(program, uv)
            return ProgramStart([str(own), *argv], places(own))
        check_installed(program)
        return ProgramStart([sys.executable or "python3", *argv])


class ShellLanguage:
    """Started by bash, or by the shell that there is."""

    note = ""

    def lacks(self, program: Program) -> str | None:
        return None

    async def build(self, program: Program, tools: Toolchain) -> str:
        return await read_shell(program, tools.processes)

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        return ProgramStart([shell(), str(program.entrypoint)])


class NoLanguage:
    """Anything else is an executable file, which starts by itself."""

    note = ""

    def lacks(self, program: Program) -> str | None:
        return None

    async def build(self, program: Program, tools: Toolchain) -> str:
        return f"{program.entrypoint.name} is started itself; there is nothing to build"

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        return ProgramStart([str(program.entrypoint)])


_LANGUAGES: Mapping[str, Language] = {GO: GoLanguage(), PYTHON: PythonLanguage(), SHELL: ShellLanguage()}
_NONE = NoLanguage()


def language_of(program: Program) -> Language:
    return _LANGUAGES.get(program.entrypoint.suffix, _NONE)
