"""Management of the programs of one home: make, build, compare, restore and remove them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import asdict

from forge_cli.core.errors import ForgeError, UsageError, WorkerError
from forge_cli.core.text import did_you_mean
from forge_cli.files.places import cannot_read
from forge_cli.files.regular import open_regular
from forge_cli.files.replace import replace_file
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.toolsets.executables.building import forget_environments
from forge_cli.toolsets.executables.contents import (
    MAX_BYTES,
    Content,
    Contents,
    read_contents,
    write_contents,
)
from forge_cli.toolsets.executables.feedback import FeedbackStore
from forge_cli.toolsets.executables.imported import ImportRecords
from forge_cli.toolsets.executables.registry import (
    MADE,
    Program,
    Registry,
    default_language,
    digest,
    walk,
)
from forge_cli.toolsets.executables.scaffold import Scaffold, check_free, scaffold
from forge_cli.toolsets.executables.toolchain import Toolchain, language_of
from forge_cli.toolsets.executables.versions import Version, Versions

TEXT_LIMIT = 512 * 1024
"""Bytes of text that are kept for one tool; of other files, only the hash is kept."""


NOT_KEPT = (
    f"forge keeps no version of more than {MAX_BYTES // 1024**2} MiB, "
    "and none if its home is not writable"
)


class File(Struct, frozen=True):
    """A file of a tool; ``text`` is None for binary files and beyond TEXT_LIMIT."""

    hash: str
    size: int
    executable: bool
    text: str | None


class Snapshot(Struct, frozen=True):
    """The files of a tool when a call of it was last approved."""

    files: Mapping[str, File]
    at: datetime


class Approved:
    """The last approved content of each tool: one file per tool, named after its hash.

    The modification time of the file is the time of the last approved call.
    """

    def __init__(self, home: Path) -> None:
        self._root = home / "approved"

    def keep(self, program: Program) -> None:
        """Store the content of a program that is about to start; ignore failures.

        Files are read and written only if the content is new.
        """
        file = self._root / program.name / f"{program.digest}.json"
        with suppress(OSError):
            try:
                os.utime(file)
            except FileNotFoundError:
                files = read_files(program.folder, program.files)
                # The files may have changed since the digest was approved.
                if digest(program.folder, program.files) == program.digest:
                    replace_file(
                        file, json.dumps({name: asdict(each) for name, each in files.items()})
                    )
                    _leave_only(file)

    def last(self, name: str) -> Snapshot | None:
        """Return the last approved content of a tool; None if there is none."""
        try:
            newest = max(
                (self._root / name).glob("[!.]*.json"), key=lambda file: file.stat().st_mtime_ns
            )
            files = {path: File(**each) for path, each in json.loads(newest.read_bytes()).items()}
            return Snapshot(files, datetime.fromtimestamp(newest.stat().st_mtime).astimezone())
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def forget(self, name: str) -> None:
        shutil.rmtree(self._root / name, ignore_errors=True)


def read_files(folder: Path, names: Iterable[str]) -> dict[str, File]:
    """Read files of a folder, with their text until TEXT_LIMIT is reached."""
    files: dict[str, File] = {}
    room = TEXT_LIMIT
    for name in sorted(names):
        with open_regular(folder / name) as file:
            status = os.fstat(file.fileno())
            size = status.st_size
            executable = status.st_mode & 0o111 != 0
            text = _text(file.read()) if size <= room else None
            file.seek(0)
            hashed = hashlib.file_digest(file, "sha256").hexdigest()
        if text is not None:
            room -= size
        files[name] = File(hashed, size, executable, text)
    return files


def _text(content: bytes) -> str | None:
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None


def _leave_only(file: Path) -> None:
    for other in file.parent.glob("[!.]*.json"):
        if other != file:
            other.unlink(missing_ok=True)


def files_of(contents: Contents) -> dict[str, File]:
    """Describe stored files in the same way as ``read_files``."""
    files: dict[str, File] = {}
    for name, each in contents.items():
        hashed = hashlib.sha256(each.data).hexdigest()
        text = _text(each.data) if len(each.data) <= TEXT_LIMIT else None
        files[name] = File(hashed, len(each.data), each.executable, text)
    return files


def compare(before: Mapping[str, File], after: Mapping[str, File]) -> list[FileChange]:
    """Return the files that differ, by path."""
    files = (
        FileChange(path, before.get(path), after.get(path)) for path in sorted({*before, *after})
    )
    return [each for each in files if each.before != each.after]


class FileChange(Struct, frozen=True):
    """A file that differs; None if there is no such file before or after."""

    path: str
    before: File | None
    after: File | None


class ProgramChanges(Struct, frozen=True):
    """Changes of a program since a call of it was last approved."""

    since: datetime
    files: Sequence[FileChange]


class ExecutableManager:
    """The programs in ``HOME/tools``, and the records about them elsewhere in the home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "tools"
        self._registry = Registry(self.root)
        self._versions = Versions(home)

    def names(self) -> list[str]:
        """Return all folders and links to folders, whether or not they are valid programs."""
        try:
            with os.scandir(self.root) as entries:
                found = [each.name for each in entries if each.is_symlink() or each.is_dir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise cannot_read(self.root, error) from None
        return sorted(name for name in found if name[0] != ".")

    def scan(self) -> tuple[list[Program], Mapping[str, str]]:
        """Return the valid programs, and the problems of all other folders."""
        programs = self._registry.scan()
        return programs, self._registry.problems

    def look(self, name: str) -> Program | str:
        """Return the program in a folder, or its problem."""
        return self._registry.look(name) or self._registry.problems[name]

    def folder(self, name: str) -> Path:
        """Return the folder of a program, valid or not; a name is never treated as a path."""
        known = self.names()
        if name not in known:
            hint = did_you_mean(name, known, None if known else "make one: forge tools new NAME")
            raise UsageError(f"there is no tool {shown(name)} in {self.root}", hint=hint)
        return self.root / name

    def find(self, name: str) -> Program:
        """Return a valid program; raise WorkerError for an invalid one."""
        found = self.look(self.folder(name).name)
        if isinstance(found, str):
            raise WorkerError(None, found)
        return found

    def problem(self, name: str) -> str | None:
        """Return the problem of a folder; None if there is no such folder or it is valid."""
        if name not in self.names():
            return None
        found = self.look(name)
        return found if isinstance(found, str) else None

    def plan(
        self, name: str, description: str | None = None, language: str | None = None
    ) -> Scaffold:
        """Return a new program that works at once; raise ToolError if the name is invalid."""
        purpose = description or f"Prints its arguments, until {name} is written"
        planned = scaffold(name, purpose, language or default_language(), ())
        check_free(self.root, planned.name)
        return planned

    def make(self, planned: Scaffold) -> Path:
        """Write the files of a new program, and return its folder."""
        planned.write(self.root)
        made = self.look(planned.name)
        if isinstance(made, Program):
            self._versions.keep_program(made)
        return self.root / planned.name

    async def build(self, program: Program) -> str:
        """Build a program and describe the result; raise ToolError if its source is invalid."""
        self._versions.keep_program(program)
        async with ChildProcesses() as processes:
            return await language_of(program).build(program, Toolchain(self.home, processes))

    def lacks(self, program: Program) -> str | None:
        """Return the missing prerequisites of a program and how to install them, or None."""
        return language_of(program).lacks(program)

    def changes(self, name: str) -> ProgramChanges | None:
        """Return the changes since the last approval; None if the program was never approved."""
        folder = self.folder(name)
        after = _files_now(folder)
        approved = Approved(self.home).last(name)
        if approved is None:
            return None
        return ProgramChanges(approved.at, compare(approved.files, after))

    def versions(self, name: str) -> list[Version]:
        """Return other versions than the current one, newest first; the tool itself may be gone."""
        current = self._current_digest(name)
        return [each for each in self._versions.of(name) if each.digest != current]

    def version(self, name: str, wanted: str | None) -> Version:
        """Return the wanted version, by default the one before the current content."""
        return self._versions.find(name, wanted, self._current_digest(name))

    def changes_since(self, name: str, version: Version) -> list[FileChange]:
        """Return the differences between a version and the current files."""
        after = _files_now(self.root / name) if name in self.names() else {}
        return compare(files_of(version.contents()), after)

    def restore(self, name: str, version: Version) -> str | None:
        """Restore a version; return the digest of the replaced content, None if there was none."""
        folder, contents = self.root / name, version.contents()
        before: dict[str, Content] = {}
        current = self._current_digest(name)
        try:
            if current is not None:
                self._check_restorable(folder)
                files = _paths(folder)
                # It must be possible to undo the restoration.
                if not self._versions.keep(folder, files, current):
                    raise ForgeError(
                        f"nothing was restored: the current files of {name} cannot be kept",
                        hint=NOT_KEPT,
                    )
                before = read_contents(folder, files)
            write_contents(folder, contents, before)
        except OSError as error:
            raise ForgeError(f"{folder} cannot be restored: {error.strerror or error}") from None
        self._versions.keep(folder, _paths(folder), version.digest)
        return current

    def current_digest(self, name: str) -> str:
        """Return the digest of a tool, valid or not; raise UsageError for an unknown name."""
        self.folder(name)
        return self._current_digest(name) or ""

    def _check_restorable(self, folder: Path) -> None:
        """Refuse links, because their targets may belong to something else."""
        links = [path for path in ("", *_paths(folder)) if (folder / path).is_symlink()]
        if links:
            raise ForgeError(
                f"{folder / links[0]} is a link, and forge does not change its target; "
                "replace it by a copy of the file"
            )

    def _current_digest(self, name: str) -> str | None:
        """Return the digest of a tool, which may be invalid; None if it is gone."""
        if name not in self.names():
            if name in self._versions.names():
                return None
            self.folder(name)  # raises the error with a hint
        folder = self.root / name
        try:
            return digest(folder, _paths(folder))
        except OSError as error:
            raise ForgeError(f"{folder} cannot be read: {error.strerror or error}") from None

    def remove(self, name: str) -> bool:
        """Delete a program and all records of it; return True if it was a link."""
        folder = self.folder(name)
        linked = folder.is_symlink()
        try:
            if linked:  # the target may belong to something else
                folder.unlink()
            else:
                shutil.rmtree(folder)
        except OSError as error:
            raise ForgeError(
                f"{folder} cannot be removed: {error.strerror or error}", hint=f"rm -r {folder}"
            ) from None
        Approved(self.home).forget(name)
        self._versions.forget(name)
        ImportRecords(self.home).forget(name)
        FeedbackStore(self.home).forget(name)
        forget_environments(self.home, name)
        return linked


def _paths(folder: Path) -> list[str]:
    return [path for path in walk(folder) if not path.endswith("/")]


def _files_now(folder: Path) -> dict[str, File]:
    try:
        return read_files(folder, _paths(folder))
    except OSError as error:
        raise ForgeError(f"{folder} cannot be read: {error.strerror or error}") from None


@contextmanager
def temporary_copy(folder: Path) -> Iterator[ExecutableManager]:
    """Yield the manager of a temporary home that contains a copy of one program only."""
    with TemporaryDirectory(prefix="forge-test-") as place:
        manager = ExecutableManager(Path(os.path.realpath(place)))
        try:
            ignored = shutil.ignore_patterns(*MADE)
            shutil.copytree(folder, manager.root / folder.name, symlinks=True, ignore=ignored)
        except (OSError, shutil.Error) as error:
            raise ForgeError(f"{folder} cannot be read: {error}") from None
        yield manager
