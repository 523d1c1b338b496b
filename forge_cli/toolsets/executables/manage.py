"""The programs of one home, for their owner: found, made, built, removed, restored, compared."""

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
"""Bytes of text that are kept of one tool; of what is more, and of what is not text, the hash."""


TOO_MUCH = f"versions of more than {MAX_BYTES // 1024**2} MiB are not kept, and none in a folder that cannot be written to"


class File(Struct, frozen=True):
    """A file of a tool; ``text`` is None where it is not text, or too much of it."""

    hash: str
    size: int
    executable: bool
    text: str | None


class Snapshot(Struct, frozen=True):
    """The files of a tool as they were last approved, and when that was."""

    files: Mapping[str, File]
    at: datetime


class Approved:
    """One file a tool, named after the hash of its content; it is as old as the last call that was let through."""

    def __init__(self, home: Path) -> None:
        self._root = home / "approved"

    def keep(self, program: Program) -> None:
        """Remember the content of a program that is about to be started; a failure to do so is ignored.

        Only what is new is read and written.
        """
        file = self._root / program.name / f"{program.digest}.json"
        with suppress(OSError):
            try:
                os.utime(file)
            except FileNotFoundError:
                files = read_files(program.folder, program.files)
                if digest(program.folder, program.files) == program.digest:
                    replace_file(
                        file, json.dumps({name: asdict(each) for name, each in files.items()})
                    )
                    _leave_only(file)

    def last(self, name: str) -> Snapshot | None:
        """The last approved state of the tool of that name; None where there is none."""
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
    """Files as they are now, the text of the first ones included."""
    files: dict[str, File] = {}
    room = TEXT_LIMIT
    for name in sorted(names):
        with open_regular(folder / name) as file:
            size, executable = (
                os.fstat(file.fileno()).st_size,
                os.fstat(file.fileno()).st_mode & 0o111 != 0,
            )
            content = file.read() if size <= room else None
            file.seek(0)
            hashed = hashlib.file_digest(file, "sha256").hexdigest()
        text = None if content is None else _text(content)
        room -= size if text is not None else 0
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
    """Describe files that were kept, as ``read_files`` does with those of a folder."""
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
    """A file of a program that differs; None where there is no such file before, or after."""

    path: str
    before: File | None
    after: File | None


class ProgramChanges(Struct, frozen=True):
    """Changes of a program since a call of it was last let through."""

    since: datetime
    files: Sequence[FileChange]


class ExecutableManager:
    """The programs in ``HOME/tools``, and what forge keeps of them elsewhere in that home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "tools"
        self._registry = Registry(self.root)
        self._versions = Versions(home)

    def names(self) -> list[str]:
        """Every folder, and every link that may lead to one, whether or not it is a sound program."""
        try:
            with os.scandir(self.root) as entries:
                found = [each.name for each in entries if each.is_symlink() or each.is_dir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise cannot_read(self.root, error) from None
        return sorted(name for name in found if name[0] != ".")

    def scan(self) -> tuple[list[Program], Mapping[str, str]]:
        """The sound programs, and of every other folder what is wrong with it."""
        programs = self._registry.scan()
        return programs, self._registry.problems

    def look(self, name: str) -> Program | str:
        """The program in a folder, or what is wrong with it."""
        return self._registry.look(name) or self._registry.problems[name]

    def folder(self, name: str) -> Path:
        """The folder of a program, which may be broken; a name is never taken for a path."""
        known = self.names()
        if name not in known:
            hint = did_you_mean(name, known, None if known else "forge tools new NAME makes one")
            raise UsageError(f"there is no tool {shown(name)} in {self.root}", hint=hint)
        return self.root / name

    def find(self, name: str) -> Program:
        """A sound program; what is wrong with one that is not, is a WorkerError with its place."""
        found = self.look(self.folder(name).name)
        if isinstance(found, str):
            raise WorkerError(None, found)
        return found

    def problem(self, name: str) -> str | None:
        """The problem of a folder of that name; None where there is no folder, or no problem."""
        found = self.look(name) if name in self.names() else None
        return found if isinstance(found, str) else None

    def plan(
        self, name: str, description: str | None = None, language: str | None = None
    ) -> Scaffold:
        """A new program that works at once; what cannot become one is a ToolError."""
        purpose = description or f"Says what it was given, until {name} is written"
        planned = scaffold(name, purpose, language or default_language(), ())
        check_free(self.root, planned.name)
        return planned

    def make(self, planned: Scaffold) -> Path:
        """Write the files of a new program, and say where they are."""
        planned.write(self.root)
        made = self.look(planned.name)
        if isinstance(made, Program):
            self._versions.keep_program(made)
        return self.root / planned.name

    async def build(self, program: Program) -> str:
        """Make a program ready, and say what was done; what is wrong with its source is a ToolError."""
        self._versions.keep_program(program)
        async with ChildProcesses() as processes:
            return await language_of(program).build(program, Toolchain(self.home, processes))

    def lacks(self, program: Program) -> str | None:
        """Things that a sound program needs and this machine lacks, with the remedy."""
        return language_of(program).lacks(program)

    def changes(self, name: str) -> ProgramChanges | None:
        """The difference to the files as they were last approved; None for a program that never was."""
        folder = self.folder(name)
        after = _files_now(folder)
        approved = Approved(self.home).last(name)
        if approved is None:
            return None
        return ProgramChanges(approved.at, compare(approved.files, after))

    def versions(self, name: str) -> list[Version]:
        """Other versions of a tool than the current one, the newest first; the tool itself may be gone."""
        current = self._current_digest(name)
        return [each for each in self._versions.of(name) if each.digest != current]

    def version(self, name: str, wanted: str | None) -> Version:
        """The version that is wanted; without a wish the one before the current content."""
        return self._versions.find(name, wanted, self._current_digest(name))

    def changes_since(self, name: str, version: Version) -> list[FileChange]:
        """The difference of the current files to those of a version."""
        after = _files_now(self.root / name) if name in self.names() else {}
        return compare(files_of(version.contents()), after)

    def restore(self, name: str, version: Version) -> str | None:
        """Give a tool the files of a version; the digest of those before, which are kept, None if there were none."""
        folder, contents = self.root / name, version.contents()
        before: dict[str, Content] = {}
        current = self._current_digest(name)
        try:
            if current is not None:
                self._check_restorable(folder)
                files = _paths(folder)
                if not self._versions.keep(folder, files, current):
                    raise ForgeError(
                        f"the current files of {name} cannot be kept, so nothing was restored",
                        hint=TOO_MUCH,
                    )
                before = read_contents(folder, files)
            write_contents(folder, contents, before)
        except OSError as error:
            raise ForgeError(f"{folder} cannot be restored: {error.strerror or error}") from None
        self._versions.keep(folder, _paths(folder), version.digest)
        return current

    def current_digest(self, name: str) -> str:
        """The digest of the files of a tool, which may be broken; a name that no tool has is a UsageError."""
        self.folder(name)
        return self._current_digest(name) or ""

    def _check_restorable(self, folder: Path) -> None:
        """Refuse links: what they lead to belongs to somebody else."""
        links = [path for path in ("", *_paths(folder)) if (folder / path).is_symlink()]
        if links:
            raise ForgeError(
                f"{folder / links[0]} is a link, and forge changes nothing behind it; copy the file there"
            )

    def _current_digest(self, name: str) -> str | None:
        """The digest of the files of a tool, which may be broken; None if it is gone."""
        if name not in self.names():
            if name in self._versions.names():
                return None
            self.folder(name)
        folder = self.root / name
        try:
            return digest(folder, _paths(folder))
        except OSError as error:
            raise ForgeError(f"{folder} cannot be read: {error.strerror or error}") from None

    def remove(self, name: str) -> bool:
        """Delete a program and what is kept of it; true where it was a link, which alone is deleted."""
        folder = self.folder(name)
        linked = folder.is_symlink()
        try:
            if linked:
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
    """For a while, a home in which there is nothing but a copy of one program's folder."""
    with TemporaryDirectory(prefix="forge-test-") as place:
        manager = ExecutableManager(Path(os.path.realpath(place)))
        try:
            ignored = shutil.ignore_patterns(*MADE)
            shutil.copytree(folder, manager.root / folder.name, symlinks=True, ignore=ignored)
        except (OSError, shutil.Error) as error:
            raise ForgeError(f"{folder} cannot be read: {error}") from None
        yield manager
