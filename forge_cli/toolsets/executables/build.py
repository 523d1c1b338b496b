"""Making a program ready without starting it: Go is compiled, a script is read by its interpreter."""

from __future__ import annotations

import re
import warnings

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.processes.command import clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.toolsets.executables.golang import COMPILE_LIMIT, GoBuilder
from forge_cli.toolsets.executables.languages import BUILD, shell
from forge_cli.toolsets.executables.registry import Program
from forge_cli.toolsets.executables.uv import Environments, check_installed, find_uv


async def compile_go(program: Program, builder: GoBuilder) -> str:
    before = {path: path.lstat().st_mtime_ns for path in (program.folder / BUILD).glob("[!.]*")}
    made = await builder.binary(program)
    known = before.get(made) == made.lstat().st_mtime_ns
    return f"nothing to do, it is compiled already: {made}" if known else f"compiled into {made}"


async def read_shell(program: Program, processes: ChildProcesses) -> str:
    argv = [shell(), "-n", str(program.entrypoint)]
    done = await processes.run(argv, cwd=program.folder, env=clean_environment(), timeout=COMPILE_LIMIT)
    if done.exit_code != 0:
        said = re.sub(r": line (\d+): ", r":\1: ", done.stderr.replace(f"{program.entrypoint.parent}/", ""))
        raise ToolError(f"{program.name} cannot be read by {argv[0]}:\n{said.strip()}")
    return f"{program.entrypoint.name} is sound for {argv[0]}; there is nothing to compile"


def read_python(program: Program) -> None:
    source = program.entrypoint
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(source.read_bytes(), str(source), "exec", dont_inherit=True)
    except SyntaxError as error:
        place = f"{source.name}:{error.lineno or 1}:{error.offset or 1}"
        raise ToolError(f"{program.name} cannot be read by Python:\n{place}: {error.msg}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise ToolError(f"{program.name} cannot be read by Python:\n{source.name}: {error}") from None


async def install_packages(program: Program, environments: Environments) -> str:
    """What a script asks for is installed by uv, or has to be there."""
    sound = f"{program.entrypoint.name} is sound Python; there is nothing to compile"
    if program.script and (uv := find_uv()):
        return (
            f"{sound}, and what it needs is installed in {(await environments.interpreter(program, uv)).parent.parent}"
        )
    check_installed(program)
    return sound
