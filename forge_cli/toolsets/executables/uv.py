"""Programs in Python with packages of their own: ``uv`` installs those, and the program is started with them."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import anyio

from forge_cli.core.errors import ToolError
from forge_cli.core.text import cut
from forge_cli.sandbox.processes.command import clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.toolsets.executables.golang import locked
from forge_cli.toolsets.executables.registry import Program

INSTALL_LIMIT = 120
KEPT = 1
"""Environments of earlier contents, which may still be in use."""
SAID = 8000
READY = ".forge-ready"
TOO_LONG = f"what {{}} needs was not installed by uv within {INSTALL_LIMIT} seconds"
NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


def find_uv() -> str | None:
    return shutil.which("uv")


def missing_packages(program: Program) -> str | None:
    """Without ``uv`` the packages have to be there already: which are not, and what to do."""
    missing = program.script.missing() if program.script and not find_uv() else []
    if not missing:
        return None
    packages = " ".join(f"'{name}'" for name in missing)
    return (
        f"{program.name} needs {', '.join(missing)}, and {sys.executable} does not have that; install uv "
        f"(https://docs.astral.sh/uv), which brings it along, or: {sys.executable} -m pip install {packages}"
    )


def check_installed(program: Program) -> None:
    if problem := missing_packages(program):
        raise ToolError(problem)


class Environments:
    """The packages of programs, installed as ``uv run --script`` would, for each content of a tool once.

    ``uv`` works outside of any confinement, as compilers do, so nothing third-party may run with it: it installs wheels
    only, and never looks at an environment again in which packages lie, since Python runs lines of theirs as it starts.
    """

    def __init__(self, home: Path, processes: ChildProcesses) -> None:
        self._cache = home / "cache" / "uv"
        self._root = home / "cache" / "environments"
        self._processes = processes

    async def interpreter(self, program: Program, uv: str) -> Path:
        """The Python that finds the packages of a program, which are installed where they are not yet."""
        place = self._root / program.name / program.digest
        found = place / "bin" / "python"
        if (place / READY).exists():
            return found
        with anyio.move_on_after(INSTALL_LIMIT):
            async with locked(place.parent):
                if not (place / READY).exists():
                    await self._install(program, uv, place)
                return found
        raise ToolError(TOO_LONG.format(program.name))

    async def _install(self, program: Program, uv: str, place: Path) -> None:
        shutil.rmtree(place, ignore_errors=True)
        python = (program.script and program.script.requires_python) or sys.executable
        await self._uv(program, place, uv, "venv", "--no-project", f"--python={python}", str(place))
        pinned = ["--locked"] if f"{program.entrypoint.name}.lock" in program.files else []
        await self._uv(program, place, uv, "sync", "--no-build", "--active", *pinned, f"--script={program.entrypoint}")
        await self._compile(place)
        (place / READY).touch()
        _prune(place)

    async def _compile(self, place: Path) -> None:
        """Write the bytecode, which no program can, by the Python behind the environment, which runs no line of it."""
        argv = [str(_behind(place / "bin" / "python")), "-I", "-m", "compileall", "-q", str(place / "lib")]
        await self._processes.run(argv, cwd=place, env=_environment(), timeout=INSTALL_LIMIT)

    async def _uv(self, program: Program, place: Path, uv: str, *arguments: str) -> None:
        argv = [uv, *arguments, f"--cache-dir={self._cache}", "--quiet", "--color=never"]
        env = {**_environment(), "VIRTUAL_ENV": str(place)}
        done = await self._processes.run(argv, cwd=place.parent, env=env, timeout=INSTALL_LIMIT)
        if done.timed_out:
            raise ToolError(TOO_LONG.format(program.name))
        if done.exit_code != 0:
            said = cut((done.stderr + done.stdout).strip(), SAID)
            raise ToolError(f"uv cannot install what {program.name} needs:\n{said}")


def forget_environments(home: Path, name: str) -> None:
    """Remove what was installed for a tool that was removed."""
    shutil.rmtree(home / "cache" / "environments" / name, ignore_errors=True)


def _prune(newest: Path) -> None:
    """Leave the environments of the last contents; somebody else may be at it as well."""
    with suppress(OSError):
        others = [path for path in newest.parent.iterdir() if path.is_dir() and path != newest]
        for old in sorted(others, key=lambda path: path.lstat().st_mtime_ns, reverse=True)[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)


def places(interpreter: Path) -> list[Path]:
    """The parts of its environment that a confined program has to see: the packages, and the Python behind it."""
    return [interpreter.parent.parent, _behind(interpreter).parent.parent]


def _behind(interpreter: Path) -> Path:
    """The Python that an environment was made with."""
    return Path(os.path.realpath(interpreter))


def _environment() -> dict[str, str]:
    own = [name for name in os.environ if name.startswith("UV_") or name.upper() in NETWORK]
    return clean_environment(own)
