"""The languages that programs are written in, by the suffix of the source: what each needs, checks and starts."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.processes.command import clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.toolsets.executables.building import (
    COMPILE_LIMIT,
    NO_GO,
    Environments,
    GoBuilder,
    check_installed,
    find_uv,
    missing_packages,
    places,
)
from forge_cli.toolsets.executables.registry import (
    BUILD,
    GO,
    PYTHON,
    SHELL,
    Program,
    find_go,
    python_flags,
    shell,
)

INTERPRETER = (Path(sys.prefix), Path(sys.base_prefix))
"""The folders of forge's own interpreter: it may be a venv in a folder that is hidden from programs, such as /tmp."""


class ProgramStart(Struct, frozen=True):
    """The argv that starts a program, and what it has to read for that besides its own folder."""

    argv: list[str]
    readable: Sequence[Path] = INTERPRETER


class Toolchain:
    """The toolchain for the programs of one home: a compiler, environments with packages, interpreters."""

    def __init__(self, home: Path, processes: ChildProcesses) -> None:
        self.processes = processes
        self.go = GoBuilder(home, processes)
        self.packages = Environments(home, processes)


class Language:
    """How programs with one kind of source are treated; anything else is an executable file, which starts itself."""

    note = ""
    """Notes on its start for the person who approves a call."""

    def lacks(self, program: Program) -> str | None:
        """Things that a sound program needs and this machine lacks, with the remedy."""
        return None

    async def build(self, program: Program, tools: Toolchain) -> str:
        """Make a program ready without starting it, and say what was done; a ToolError says what is wrong with it."""
        return f"{program.entrypoint.name} is started itself; there is nothing to build"

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        """The program to start, once it is compiled or its packages are installed."""
        return ProgramStart([str(program.entrypoint)])


class GoLanguage(Language):
    """Compiled on first use."""

    note = "compiled on first use"

    def lacks(self, program: Program) -> str | None:
        return None if find_go() else NO_GO.format(program.name)

    async def build(self, program: Program, tools: Toolchain) -> str:
        before = {path: path.lstat().st_mtime_ns for path in (program.folder / BUILD).glob("[!.]*")}
        made = await tools.go.binary(program)
        known = before.get(made) == made.lstat().st_mtime_ns
        return (
            f"nothing to do, it is compiled already: {made}" if known else f"compiled into {made}"
        )

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        return ProgramStart([str(await tools.go.binary(program))])


class PythonLanguage(Language):
    """Started by forge's own interpreter, or by that of an environment where the source asks for packages."""

    def lacks(self, program: Program) -> str | None:
        return missing_packages(program)

    async def build(self, program: Program, tools: Toolchain) -> str:
        read_python(program)
        sound = f"{program.entrypoint.name} is sound Python; there is nothing to compile"
        if program.script and (uv := find_uv()):
            place = (await tools.packages.interpreter(program, uv)).parent.parent
            return f"{sound}, and what it needs is installed in {place}"
        check_installed(program)
        return sound

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        argv = [*python_flags(program.folder, program.files), str(program.entrypoint)]
        if program.script and (uv := find_uv()):
            own = await tools.packages.interpreter(program, uv)
            return ProgramStart([str(own), *argv], places(own))
        check_installed(program)
        return ProgramStart([sys.executable or "python3", *argv])


class ShellLanguage(Language):
    """Started by bash, or by the shell that there is."""

    async def build(self, program: Program, tools: Toolchain) -> str:
        argv = [shell(), "-n", str(program.entrypoint)]
        done = await tools.processes.run(
            argv, cwd=program.folder, env=clean_environment(), timeout=COMPILE_LIMIT
        )
        if done.exit_code != 0:
            said = re.sub(
                r": line (\d+): ",
                r":\1: ",
                done.stderr.replace(f"{program.entrypoint.parent}/", ""),
            )
            raise ToolError(f"{program.name} cannot be read by {argv[0]}:\n{said.strip()}")
        return f"{program.entrypoint.name} is sound for {argv[0]}; there is nothing to compile"

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        return ProgramStart([shell(), str(program.entrypoint)])


_LANGUAGES: Mapping[str, Language] = {
    GO: GoLanguage(),
    PYTHON: PythonLanguage(),
    SHELL: ShellLanguage(),
}
_ANY_OTHER = Language()


def language_of(program: Program) -> Language:
    return _LANGUAGES.get(program.entrypoint.suffix, _ANY_OTHER)


def read_python(program: Program) -> None:
    source = program.entrypoint
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(source.read_bytes(), str(source), "exec", dont_inherit=True)
    except SyntaxError as error:
        place = f"{source.name}:{error.lineno or 1}:{error.offset or 1}"
        raise ToolError(f"{program.name} cannot be read by Python:\n{place}: {error.msg}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError(
            f"{program.name} cannot be read by Python:\n{source.name}: {error}"
        ) from None
