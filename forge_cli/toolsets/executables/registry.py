"""The tools in ``~/.forge/tools``, as they are now."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import stat
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from forge_cli.core.errors import ForgeError, Mark, WorkerError
from forge_cli.core.text import visible
from forge_cli.files.regular import open_regular
from forge_cli.toolsets.executables.manifest import FILE, Manifest, read_manifest

GO, PYTHON, SHELL = ".go", ".py", ".sh"
BUILD = ".build"
MADE = frozenset({BUILD, "__pycache__", ".git"})
"""Folders inside a tool's folder that are not part of the tool."""
INTERPRETED = frozenset({GO, SHELL, PYTHON})
LANGUAGES: Mapping[str, str] = {"go": GO, "sh": SHELL, "py": PYTHON}
CREATE: Final = "create_custom_tool"
RUN: Final = "run_custom_tool"
RESERVED = frozenset({CREATE, RUN})
BUILT_IN = frozenset(
    {
        "read_file",
        "write_file",
        "edit_file",
        "list_files",
        "delete_file",
        "file_exists",
        "file_info",
        "list_dir",
        "grep_files",
        "apply_patch",
        "shell",
        "exec_command",
        "write_stdin",
        "update_plan",
        "load_skill",
        "get_memory",
        "save_memory",
        "list_mcp_resources",
        "read_mcp_resource",
    }
)
"""Names of built-in tools, which a program of the same name replaces."""

_BLOCK = re.compile(r"(?m)^# /// script\n(?P<content>(?:^#(?:| .*)\n)+)^# ///$")
_BEGIN = re.compile(r"(?m)^# /// script$")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_VERSIONS = re.compile(r"(?:\s*(?:~=|[=!<>]=|<|>)\s*\d[\w.*]*\s*(?:,|$))*")
_AT_LEAST = re.compile(r">=\s*(\d+(?:\.\d+)*)")


def shell() -> str:
    """Return the shell that runs scripts: bash if it is installed, else sh."""
    return shutil.which("bash") or shutil.which("sh") or "/bin/sh"


def python_flags(folder: Path, files: Iterable[str]) -> list[str]:
    """Return the options of Python for a tool: write no bytecode, and read none from its folder.

    Nobody approved bytecode in the folder. Disabling all bytecode would make the start four times
    slower, so that happens only if the folder contains some.
    """
    folders = {os.path.dirname(name) for name in files}
    found = any(os.path.lexists(folder / name / "__pycache__") for name in folders)
    return ["-B", "-s", *(["-X", f"pycache_prefix={os.devnull}"] if found else [])]


def default_language() -> str:
    """Return the language of new tools: Go if it is installed, else Python."""
    return "go" if find_go() else "py"


def find_go() -> Path | None:
    """Return the path of the Go toolchain, or None."""
    found = shutil.which("go")
    return Path(found) if found else None


class Program(Struct, frozen=True):
    """A valid tool: its manifest, its entrypoint, and the hash of all its files."""

    folder: Path
    manifest: Manifest
    entrypoint: Path
    digest: str
    files: tuple[str, ...]
    """Every file of the tool, relative to its folder."""
    script: Requirements | None = None
    """The packages that a Python source declares."""

    @property
    def name(self) -> str:
        return self.manifest.name


class Registry:
    """The executable tools in a folder.

    The folder is read at each request; an unchanged tool stays the same Program object.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._programs: dict[str, Program] = {}
        self.problems: dict[str, str] = {}
        """Why each invalid folder is not a tool, as of the last scan."""

    def scan(self) -> list[Program]:
        """Return the current tools, sorted by name."""
        names = _folders(self.root)
        self.problems = {name: why for name, why in self.problems.items() if name in names}
        return [found for name in names if (found := self.look(name))]

    def look(self, name: str) -> Program | None:
        """Return one tool as it is now; None if it is invalid or missing."""
        # Taken out, so that it stays forgotten if it is invalid now.
        known, folder = self._programs.pop(name, None), self.root / name
        self.problems.pop(name, None)
        try:
            files = _files(folder)
            if known is None or known.digest != digest(folder, files):
                known = _program(folder, files)
            self._programs[name] = known
            return known
        except ForgeError as error:
            self.problems[name] = str(error)
        except FileNotFoundError:
            self.problems[name] = f"{folder}: was deleted or is being changed"
        except OSError as error:
            self.problems[name] = f"{folder}: cannot be read: {error.strerror or error}"
        return None


def _folders(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return sorted(
                entry.name for entry in entries if entry.name[0] != "." and _is_folder(entry)
            )
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise WorkerError(None, f"{root} cannot be read: {error.strerror}") from None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return True for a folder, and for anything unreadable, so that its problem is reported."""
    try:
        return entry.is_dir()
    except OSError:
        return True


def _files(folder: Path) -> list[str]:
    """Return the files of a tool; raise WorkerError if other users can change it."""
    paths = list(walk(folder))
    _check_writers(folder, paths)
    return [path for path in paths if not path.endswith("/")]


def _check_writers(folder: Path, paths: Iterable[str]) -> None:
    """Refuse folders that the group or others can write to, and files that others can write to."""
    for path in paths:
        refused = stat.S_IWOTH
        if path.endswith("/"):
            refused |= stat.S_IWGRP
        if os.stat(f"{folder}/{path}").st_mode & refused:
            place = os.path.normpath(f"{folder}/{path}")
            raise WorkerError(
                None,
                f"{place} is writable by other users; run: chmod go-w {shlex.quote(place)}",
            )


def _program(folder: Path, files: list[str]) -> Program:
    if FILE not in files:
        raise WorkerError(None, f"{folder}: no {FILE}; write one, or move the folder elsewhere")
    if folder.name in RESERVED:
        raise WorkerError(
            None,
            f"{folder}: forge has a tool named '{folder.name}'; rename the folder and the tool",
        )
    manifest = read_manifest(folder)
    entrypoint = _entrypoint(folder, manifest)
    script = read_script(entrypoint) if entrypoint.suffix == PYTHON else None
    return Program(folder, manifest, entrypoint, digest(folder, files), tuple(files), script)


def _entrypoint(folder: Path, manifest: Manifest) -> Path:
    """Return the file to start, which has to be in the folder even after following links."""
    where, named = manifest.where("entrypoint"), manifest.entrypoint
    home, real = Path(os.path.realpath(folder)), Path(os.path.realpath(folder / named))
    if os.path.isabs(named) or not real.is_relative_to(home) or real == home:
        raise WorkerError(
            where, f"entrypoint: '{visible(named)}' is not inside the folder of the tool"
        )
    parts = real.relative_to(home).parts
    if any(part in MADE for part in parts):
        raise WorkerError(
            where,
            f"entrypoint: '{visible(named)}' is a generated file; name the source itself",
        )
    try:
        mode = os.stat(real).st_mode
    except OSError as error:
        raise WorkerError(
            where,
            f"entrypoint: '{visible(named)}': {error.strerror}; write it, or correct the name",
        ) from None
    if not stat.S_ISREG(mode):
        raise WorkerError(where, f"entrypoint: '{visible(named)}' is not a regular file")
    if real.suffix not in INTERPRETED and not os.access(real, os.X_OK):
        remedy = "make it executable (chmod +x), or name a .go, .sh or .py file"
        raise WorkerError(where, f"entrypoint: '{visible(named)}' cannot be executed; {remedy}")
    if real.suffix not in INTERPRETED and _has_return_in_shebang(real):
        problem = "the first line ends with a carriage return, so its interpreter is not found"
        raise WorkerError(Mark(str(real)), f"{problem}; save the file with Unix line endings")
    return real


def _has_return_in_shebang(file: Path) -> bool:
    with open(file, "rb") as source:
        first = source.readline(4096)
    return first.startswith(b"#!") and first.endswith(b"\r\n")


def digest(folder: Path, files: Iterable[str]) -> str:
    """Return a hash of the names, modes and contents of files."""
    total = hashlib.sha256()
    for name in sorted(files):
        with open_regular(folder / name) as file:
            content = hashlib.file_digest(file, "sha256").digest()
            executable = os.fstat(file.fileno()).st_mode & 0o111 != 0
        total.update(f"{name}\0{executable:d}\0".encode(errors="surrogateescape") + content)
    return total.hexdigest()


def walk(folder: Path, inside: str = "") -> Iterator[str]:
    """Yield the folders (with a final slash) and files of a tool; links to files are followed."""
    yield f"{inside}/" if inside else "/"
    with os.scandir(folder / inside) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = f"{inside}/{entry.name}" if inside else entry.name
            if entry.name in MADE:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from walk(folder, path)
            elif entry.is_file():
                yield path
            else:
                raise WorkerError(
                    None, f"{folder}: '{visible(path)}' is neither a file nor a folder; remove it"
                )


class Requirements(Struct, frozen=True):
    """The packages and the Python version that a program needs."""

    dependencies: tuple[str, ...] = ()
    requires_python: str = ""

    def missing(self) -> list[str]:
        """Return the packages that forge's own Python lacks; skip requirements with conditions."""
        wanted = _AT_LEAST.search(self.requires_python)
        old = wanted is not None and sys.version_info < tuple(map(int, wanted[1].split(".")))
        packages = [
            each for each in self.dependencies if ";" not in each and not _is_installed(each)
        ]
        if old:
            packages.insert(0, f"Python {self.requires_python}")
        return packages


def read_script(file: Path) -> Requirements | None:
    """Read the PEP 723 metadata of a source; raise WorkerError if it is invalid."""
    text = file.read_bytes().decode(errors="replace").replace("\r\n", "\n")
    begins = list(_BEGIN.finditer(text))
    if not begins:
        return None
    line = text.count("\n", 0, begins[-1].start()) + 1
    if len(begins) > 1:
        raise WorkerError(Mark(str(file), line), "duplicate '# /// script'; keep one of the two")
    block = _BLOCK.search(text)
    if block is None:
        problem = (
            "'# /// script' has no end; "
            "write '# ///' below it, with only comment lines between them"
        )
        raise WorkerError(Mark(str(file), line), problem)
    return _parse(block["content"], file, line)


def _parse(content: str, file: Path, begin: int) -> Requirements:
    said = "\n".join(line[2:] for line in content.split("\n"))
    try:
        data = tomllib.loads(said)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        line, column = content.count("\n"), 1
        if place and place[1]:
            line, column = int(place[1]), int(place[2]) + 2  # the removed "# "
        problem = f"the script's metadata is not TOML: {_PLACE.sub('', str(error))}"
        raise WorkerError(Mark(str(file), begin + line, column), problem) from None
    dependencies, python = data.get("dependencies", []), data.get("requires-python", "")
    if not isinstance(dependencies, list) or not all(
        isinstance(each, str) for each in dependencies
    ):
        raise WorkerError(
            Mark(str(file), begin), 'dependencies: must be a list of strings such as ["rich>=14"]'
        )
    if not isinstance(python, str) or not _VERSIONS.fullmatch(python):
        raise WorkerError(
            Mark(str(file), begin), 'requires-python: must be a version range such as ">=3.11"'
        )
    if _has_editable(data):
        problem = (
            "tool.uv.sources: an editable package runs code while it is installed; "
            "name a wheel instead"
        )
        raise WorkerError(Mark(str(file), begin), problem)
    return Requirements(tuple(dependencies), python)


def _has_editable(data: Any) -> bool:
    """Return True if any table under ``tool`` asks for an editable package."""
    match data:
        case {"editable": editable} if editable:
            return True
        case dict():
            return any(_has_editable(value) for value in data.values())
        case list():
            return any(_has_editable(value) for value in data)
        case _:
            return False


def _is_installed(requirement: str) -> bool:
    name = _NAME.match(requirement)
    try:
        return name is not None and bool(metadata.distribution(name[1]))
    except metadata.PackageNotFoundError:
        return False
