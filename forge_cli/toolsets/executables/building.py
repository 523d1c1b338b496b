"""Builds of programs, shared by all processes: Go is compiled, ``uv`` installs Python packages."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio

from forge_cli.core.errors import ToolError
from forge_cli.core.processes import Finished
from forge_cli.core.text import cut
from forge_cli.files.lock import acquire_file_lock
from forge_cli.files.replace import replace_file
from forge_cli.sandbox.processes.command import clean_environment
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.toolsets.executables.manifest import FILE
from forge_cli.toolsets.executables.registry import BUILD, Program, find_go

INSTALL_LIMIT = 120
KEPT_ENVIRONMENTS = 2
"""The environment of the current content, and the previous one, which may still be in use."""
READY = ".forge-ready"
"""A file that marks a complete environment."""
NOT_INSTALLED = f"uv did not install the packages of {{}} within {INSTALL_LIMIT} seconds"
NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Environment variables that programs need for downloads."""
COMPILE_LIMIT = 120
KEPT_BINARIES = 3
PAUSE = 0.02
"""Seconds between two attempts to lock a folder."""
SAID = 8000
"""Characters of the output of a compiler or ``uv`` in an error."""
TOO_LONG = f"{{}} was not compiled within {COMPILE_LIMIT} seconds"
NO_GO = (
    "{} cannot be compiled: there is no Go toolchain on the PATH; "
    "install Go (https://go.dev/dl), or rewrite the tool as .py or .sh"
)

VENDOR = (
    "(forge downloads no packages for a tool: list them in a go.mod in its folder, and have them "
    "in vendor/ there or in your module cache; in the folder, 'go mod init NAME' makes the go.mod, "
    "'go mod tidy' fills the module cache, 'go mod vendor' makes vendor/)"
)
_NOT_FOUND = re.compile(
    # Without a network, the announcement of a download is also its failure.
    r"go: downloading (?P<module>\S+) (?P<version>v\S+)"
    r"|(?:cannot find module providing|no required module provides) package (?P<package>[^\s:;]+)"
    r"|cannot find package \"\.\" in:\s+vendor/(?P<vendored>\S+)"
    r"|(?P<summed>[\w./~+-]+@v[\w.+-]+): (?:missing go\.sum|module lookup disabled)"
)
_OUTSIDE = re.compile(
    r"cannot find (?:module providing )?package|no required module provides|module lookup disabled"
)


class GoBuilder:
    """Compiles Go programs, and recognizes the binaries that it made.

    A binary is beside its source, where file tools can write. Its hash is in a private folder of
    forge, and a binary that does not match its hash is built again.
    """

    def __init__(self, home: Path, processes: ChildProcesses) -> None:
        self._seals = home / "cache" / "builds"
        self._processes = processes
        self._versions: dict[tuple[str, int], str] = {}

    async def binary(self, program: Program) -> Path:
        """Return the binary of the current source; compile it if needed."""
        go = find_go()
        if go is None:
            raise ToolError(NO_GO.format(program.name))
        sources = _sources(program)
        key = _key(sources, await self._version(go))
        made = program.folder / BUILD / key
        make = partial(self._build, go, program, sources, made)
        await _once(
            made.parent,
            partial(self._is_ours, made),
            make,
            COMPILE_LIMIT,
            TOO_LONG.format(program.name),
        )
        return made

    async def _version(self, go: Path) -> str:
        # An upgrade of Go may keep the path.
        identity = (str(go), os.stat(go).st_mtime_ns)
        if identity not in self._versions:
            self._versions[identity] = (
                await self._go([str(go), "version"], Path("/"))
            ).stdout.strip()
        return self._versions[identity]

    async def _build(
        self, go: Path, program: Program, sources: dict[str, bytes], made: Path
    ) -> None:
        """Compile a copy of the hashed sources in a temporary folder, and move the binary in."""
        with tempfile.TemporaryDirectory(prefix="forge-go-") as place:
            folder = Path(place, "source")
            for name, content in sources.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            inside, what = _package(program, sources)
            done = await self._go(
                [str(go), "build", "-o", f"{place}/binary", what], folder / inside, sources
            )
            if done.timed_out:
                raise ToolError(TOO_LONG.format(program.name))
            if done.exit_code != 0:
                # Name the files by their paths in the tool, not in the temporary folder.
                said = (done.stderr + done.stdout).replace(f"{folder}/", "").strip()
                hint = f"\n{_missing(said)}{VENDOR}" if _OUTSIDE.search(said) else ""
                raise ToolError(f"{program.name} does not compile:\n{cut(said, SAID)}{hint}")
            self._move_in(Path(place, "binary"), made)

    def _move_in(self, binary: Path, made: Path) -> None:
        content = binary.read_bytes()
        replace_file(self._seals / made.name, hashlib.sha256(content).hexdigest(), durable=False)
        replace_file(made, content, mode=0o755, durable=False)
        _prune(made.parent, KEPT_BINARIES)

    def _is_ours(self, made: Path) -> bool:
        try:
            return stat.S_ISREG(made.lstat().st_mode) and (
                self._seals / made.name
            ).read_text() == _hash(made)
        except OSError:
            return False

    async def _go(
        self, argv: list[str], cwd: Path, sources: dict[str, bytes] | None = None
    ) -> Finished:
        cache = _cache()
        vendored = any(name.startswith("vendor/") for name in sources or ())
        env = {
            **clean_environment(),
            "GOFLAGS": "-mod=vendor" if vendored else "-mod=mod",
            "GOPROXY": "off",
            "GOSUMDB": "off",  # go.sum is still checked; the database would need the network
            "GOMODCACHE": str(_module_cache()),
            "GOTOOLCHAIN": "local",  # a go.mod could have another version downloaded
            "CGO_ENABLED": "0",  # the source could pass options to a C compiler
            "GOENV": "off",  # a settings file could override these values
            "GOWORK": "off",  # a go.work in a parent folder could add modules
            "GOCACHE": str(cache / "build"),
            "GOPATH": str(cache / "path"),
        }
        return await self._processes.run(argv, cwd=cwd, env=env, timeout=COMPILE_LIMIT)


def _module_cache() -> Path:
    """Return the folder of modules that the user's own ``go`` has downloaded."""
    if named := os.environ.get("GOMODCACHE"):
        return Path(named)
    first = os.environ.get("GOPATH", "").split(os.pathsep)[0]
    return (Path(first) if first else Path.home() / "go") / "pkg" / "mod"


def _missing(said: str) -> str:
    """Return a line that lists the modules and packages that were not found, or an empty string."""
    found: dict[str, None] = {}
    for match in _NOT_FOUND.finditer(said):
        if match["module"]:
            found[f"{match['module']}@{match['version']}"] = None
        else:
            found[match["package"] or match["vendored"] or match["summed"]] = None
    return f"not on this machine: {', '.join(found)}\n" if found else ""


def _sources(program: Program) -> dict[str, bytes]:
    """Return the sources to compile: the entrypoint, or with a ``go.mod`` all but ``tool.yaml``."""
    home = Path(os.path.realpath(program.folder))
    try:
        if "go.mod" in program.files:
            return {name: (home / name).read_bytes() for name in program.files if name != FILE}
        return {program.entrypoint.name: program.entrypoint.read_bytes()}
    except OSError as error:
        problem = f"the source of {program.name} cannot be read: {error.strerror or error}"
        raise ToolError(problem) from None


def _package(program: Program, sources: dict[str, bytes]) -> tuple[Path, str]:
    """Return the folder to compile in and the argument for ``go build``."""
    if "go.mod" not in sources:
        return Path(), program.entrypoint.name
    return program.entrypoint.relative_to(os.path.realpath(program.folder)).parent, "."


def _key(sources: dict[str, bytes], version: str) -> str:
    total = hashlib.sha256(version.encode())
    for name in sorted(sources):
        total.update(
            f"\0{name}\0".encode(errors="surrogateescape") + hashlib.sha256(sources[name]).digest()
        )
    return total.hexdigest()


def _hash(file: Path) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _prune(folder: Path, kept: int) -> None:
    """Delete all but the newest entries of a folder; other processes may do the same."""
    with suppress(OSError):
        # The lock and temporary files begin with a dot.
        made = [path for path in folder.iterdir() if not path.name.startswith(".")]
        for old in sorted(made, key=lambda path: path.lstat().st_mtime_ns, reverse=True)[kept:]:
            if old.is_dir():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.unlink()


async def _once(
    folder: Path,
    is_ready: Callable[[], bool],
    make: Callable[[], Awaitable[None]],
    limit: float,
    too_long: str,
) -> None:
    """Call ``make`` unless the result is ready; only one process at a time works in ``folder``."""
    with anyio.move_on_after(limit):
        while not is_ready():
            descriptor = _lock(folder)
            if descriptor is None:
                await anyio.sleep(PAUSE)
                continue
            try:
                # Another process may have made it before this one got the lock.
                if not is_ready():
                    await make()
                return
            finally:
                os.close(descriptor)  # also releases the lock
        return
    raise ToolError(too_long)


def _lock(folder: Path) -> int | None:
    """Lock a folder, make it if needed, and return the descriptor; None if it is locked."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.is_symlink():
            raise ToolError(
                f"{folder} is a link, but binaries are kept in the folder of their tool; remove it"
            )
        return acquire_file_lock(folder / ".lock", wait=False)
    except BlockingIOError:
        return None
    except OSError as error:
        raise ToolError(f"cannot build in {folder}: {error.strerror}") from None


def _cache() -> Path:
    """Return the folder for the caches of the Go compiler, which only this user can access."""
    place = Path(tempfile.gettempdir(), f"forge-go-{os.getuid()}")
    with suppress(FileExistsError):
        place.mkdir(mode=0o700)
    # The name is predictable: another user could have made the folder, with compiled code in it.
    info = place.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise ToolError(f"{place} is not a private folder of yours; remove it and try again")
    return place


def find_uv() -> str | None:
    """Return the path of ``uv``, or None."""
    return shutil.which("uv")


def missing_packages(program: Program) -> str | None:
    """Return a message that lists the missing packages if there is no ``uv`` to install them."""
    if program.script is None or find_uv():
        return None
    missing = program.script.missing()
    if not missing:
        return None
    packages = " ".join(f"'{name}'" for name in missing)
    return (
        f"{program.name} needs {', '.join(missing)}, which {sys.executable} lacks; "
        "install uv (https://docs.astral.sh/uv), which installs packages for tools, or run: "
        f"{sys.executable} -m pip install {packages}"
    )


def check_installed(program: Program) -> None:
    """Raise ToolError if packages are missing that nothing can install."""
    if problem := missing_packages(program):
        raise ToolError(problem)


class Environments:
    """The packages of programs, installed once for each version of a program.

    ``uv`` runs outside of the confinement, as compilers do, so no third-party code may run in it.
    It installs wheels only. forge never opens a finished environment with ``uv`` again, because
    Python executes ``.pth`` lines of packages when it starts.
    """

    def __init__(self, home: Path, processes: ChildProcesses) -> None:
        self._cache = home / "cache" / "uv"
        self._root = home / "cache" / "environments"
        self._processes = processes

    async def interpreter(self, program: Program, uv: str) -> Path:
        """Return the Python that has the packages of a program; install them if needed."""
        place = self._root / program.name / program.digest
        make = partial(self._install, program, uv, place)
        await _once(
            place.parent,
            (place / READY).exists,
            make,
            INSTALL_LIMIT,
            NOT_INSTALLED.format(program.name),
        )
        return place / "bin" / "python"

    async def _install(self, program: Program, uv: str, place: Path) -> None:
        shutil.rmtree(place, ignore_errors=True)  # an interrupted installation
        python = (program.script and program.script.requires_python) or sys.executable
        await self._uv(program, place, uv, "venv", "--no-project", f"--python={python}", str(place))
        pinned = ["--locked"] if f"{program.entrypoint.name}.lock" in program.files else []
        await self._uv(
            program,
            place,
            uv,
            "sync",
            "--no-build",  # a build would run code of the package, unconfined
            "--active",
            *pinned,
            f"--script={program.entrypoint}",
        )
        await self._compile(place)
        (place / READY).touch()
        _prune(place.parent, KEPT_ENVIRONMENTS)

    async def _compile(self, place: Path) -> None:
        """Write the bytecode with the Python that the environment was made from.

        A program cannot write into its environment, and that Python executes no line of the
        packages.
        """
        argv = [
            str(_behind(place / "bin" / "python")),
            "-I",
            "-m",
            "compileall",
            "-q",
            str(place / "lib"),
        ]
        await self._processes.run(argv, cwd=place, env=_environment(), timeout=INSTALL_LIMIT)

    async def _uv(self, program: Program, place: Path, uv: str, *arguments: str) -> None:
        argv = [uv, *arguments, f"--cache-dir={self._cache}", "--quiet", "--color=never"]
        env = {**_environment(), "VIRTUAL_ENV": str(place)}
        done = await self._processes.run(argv, cwd=place.parent, env=env, timeout=INSTALL_LIMIT)
        if done.timed_out:
            raise ToolError(NOT_INSTALLED.format(program.name))
        if done.exit_code != 0:
            said = cut((done.stderr + done.stdout).strip(), SAID)
            raise ToolError(f"uv cannot install the packages of {program.name}:\n{said}")


def forget_environments(home: Path, name: str) -> None:
    """Delete the environments of a tool that was removed."""
    shutil.rmtree(home / "cache" / "environments" / name, ignore_errors=True)


def places(interpreter: Path) -> list[Path]:
    """Return the folders that a confined program needs: its environment and the base Python."""
    return [interpreter.parent.parent, _behind(interpreter).parent.parent]


def _behind(interpreter: Path) -> Path:
    """Return the Python that an environment was made from."""
    return Path(os.path.realpath(interpreter))


def _environment() -> dict[str, str]:
    own = [name for name in os.environ if name.startswith("UV_") or name.upper() in NETWORK]
    return clean_environment(own)
