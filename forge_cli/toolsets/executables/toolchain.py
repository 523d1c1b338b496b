"""The languages of programs, by the suffix of the source: prerequisites, checks and start."""

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
"""The folders of forge's own interpreter, which may be hidden from programs, such as in /tmp."""


class ProgramStart(Struct, frozen=True):
    """The arguments that start a program, and the folders that it needs besides its own."""

    argv: list[str]
    readable: Sequence[Path] = INTERPRETER


class Toolchain:
    """The compilers, package environments and interpreters for the programs of one home."""

    def __init__(self, home: Path, processes: ChildProcesses) -> None:
        self.processes = processes
        self.go = GoBuilder(home, processes)
        self.packages = Environments(home, processes)


class Language:
    """The treatment of programs by language; the base class is for executable files."""

    note = ""
    """A remark about the start, for the person who approves a call."""

    def lacks(self, program: Program) -> str | None:
        """Return the missing prerequisites of a program and how to install them, or None."""
        return None

    async def build(self, program: Program, tools: Toolchain) -> str:
        """Build a program without starting it, and describe the result."""
        return f"{program.entrypoint.name} is an executable file; there is nothing to build"

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        """Return the arguments that start a program, after compiling or installing if needed."""
        return ProgramStart([str(program.entrypoint)])


class GoLanguage(Language):
    """Go, compiled at the first use."""

    note = "compiled on first use"

    def lacks(self, program: Program) -> str | None:
        return None if find_go() else NO_GO.format(program.name)

    async def build(self, program: Program, tools: Toolchain) -> str:
        before = {path: path.lstat().st_mtime_ns for path in (program.folder / BUILD).glob("[!.]*")}
        made = await tools.go.binary(program)
        known = before.get(made) == made.lstat().st_mtime_ns
        return f"nothing to do, already compiled: {made}" if known else f"compiled into {made}"

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        return ProgramStart([str(await tools.go.binary(program))])


class PythonLanguage(Language):
    """Python, run by forge's own interpreter, or by an environment if packages are declared."""

    def lacks(self, program: Program) -> str | None:
        return missing_packages(program)

    async def build(self, program: Program, tools: Toolchain) -> str:
        read_python(program)
        valid = f"{program.entrypoint.name} is valid Python; there is nothing to compile"
        if program.script and (uv := find_uv()):
            place = (await tools.packages.interpreter(program, uv)).parent.parent
            return f"{valid}, and its packages are installed in {place}"
        check_installed(program)
        return valid

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        argv = [*python_flags(program.folder, program.files), str(program.entrypoint)]
        if program.script and (uv := find_uv()):
            own = await tools.packages.interpreter(program, uv)
            return ProgramStart([str(own), *argv], places(own))
        check_installed(program)
        # An embedded Python may not know its own executable.
        return ProgramStart([sys.executable or "python3", *argv])


class ShellLanguage(Language):
    """Shell scripts, run by bash if it is installed, else by sh."""

    async def build(self, program: Program, tools: Toolchain) -> str:
        argv = [shell(), "-n", str(program.entrypoint)]
        done = await tools.processes.run(
            argv, cwd=program.folder, env=clean_environment(), timeout=COMPILE_LIMIT
        )
        if done.exit_code != 0:
            # bash writes "FILE: line 3:", but terminals and editors open "FILE:3:".
            said = re.sub(
                r": line (\d+): ",
                r":\1: ",
                done.stderr.replace(f"{program.entrypoint.parent}/", ""),
            )
            raise ToolError(f"{program.name} is not valid for {argv[0]}:\n{said.strip()}")
        return f"{program.entrypoint.name} is valid for {argv[0]}; there is nothing to compile"

    async def start(self, program: Program, tools: Toolchain) -> ProgramStart:
        return ProgramStart([shell(), str(program.entrypoint)])


_LANGUAGES: Mapping[str, Language] = {
    GO: GoLanguage(),
    PYTHON: PythonLanguage(),
    SHELL: ShellLanguage(),
}
_ANY_OTHER = Language()


def language_of(program: Program) -> Language:
    """Return the language of a program by the suffix of its entrypoint."""
    return _LANGUAGES.get(program.entrypoint.suffix, _ANY_OTHER)


def read_python(program: Program) -> None:
    """Raise ToolError if the source is not valid Python."""
    source = program.entrypoint
    try:
        with warnings.catch_warnings(action="ignore"):
            # Not with the ``__future__`` imports of this module.
            compile(source.read_bytes(), str(source), "exec", dont_inherit=True)
    except SyntaxError as error:
        place = f"{source.name}:{error.lineno or 1}:{error.offset or 1}"
        raise ToolError(f"{program.name} is not valid Python:\n{place}: {error.msg}") from None
    # compile raises ValueError for NUL bytes, and the other two for deeply nested code.
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError(f"{program.name} is not valid Python:\n{source.name}: {error}") from None
