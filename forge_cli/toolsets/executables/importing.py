"""The import of tools into ``~/.forge/tools``: all tools of a source, or none."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.errors import ForgeError, UsageError, WorkerError
from forge_cli.core.text import did_you_mean
from forge_cli.files.document import MAX_BYTES as MANIFEST_LIMIT
from forge_cli.files.document import parse_document
from forge_cli.files.regular import sync_folder
from forge_cli.files.staging import staging_folder
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.secrets import own_redactor
from forge_cli.toolsets.executables.archives import ArchiveSource
from forge_cli.toolsets.executables.contents import Content, Contents, write_contents
from forge_cli.toolsets.executables.feedback import FeedbackStore
from forge_cli.toolsets.executables.imported import Imported, ImportRecords
from forge_cli.toolsets.executables.incoming import (
    FolderSource,
    Listing,
    OfferedFile,
    SourceError,
    ToolSource,
    read_contents_of,
    roots,
)
from forge_cli.toolsets.executables.manage import Approved
from forge_cli.toolsets.executables.manifest import FILE, parse_manifest
from forge_cli.toolsets.executables.registry import Program, Registry
from forge_cli.toolsets.executables.repositories import (
    RepositorySource,
    is_address,
    is_bare_repository,
)
from forge_cli.toolsets.executables.scaffold import replaced_tool
from forge_cli.toolsets.executables.stats import Stats
from forge_cli.toolsets.executables.toolchain import language_of
from forge_cli.toolsets.executables.versions import Versions

MAX_TOOLS = 50
"""Tools of one source."""
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,63}")
NAME_RULE = "use up to 64 letters, digits, '_' and '-', starting with a letter"


class FoundTool(Struct, frozen=True):
    """A valid tool of a source, as it would be imported."""

    folder: str
    """The folder in the source; empty for the source itself."""
    declared: str
    """The name in its ``tool.yaml``."""
    program: Program
    """The tool, read from a temporary folder that has been deleted."""
    entrypoint: str
    contents: Contents

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def lacks(self) -> str | None:
        """Return the missing prerequisites of the tool and how to install them, or None."""
        return language_of(self.program).lacks(self.program)

    @property
    def warning(self) -> str:
        return replaced_tool(self.name)


class Offered(Struct, frozen=True):
    """Tools of a source that can be imported."""

    source: str
    kind: str
    facts: dict[str, str]
    tools: Sequence[FoundTool]


class Importer:
    """Imports tools into one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.root = home / "tools"

    async def look(
        self, text: str, wanted: Sequence[str] = (), rename: str | None = None
    ) -> Offered:
        """Return the tools of a source, or the ``wanted`` ones, with the names they would get."""
        async with self._opened(text) as source:
            listing = await source.listing()
            chosen = await self._choose(source, listing, wanted)
            if rename is not None and len(chosen) > 1:
                names = ", ".join(chosen.values())
                raise UsageError(
                    f"--as renames one tool, but there are {len(chosen)}: {names}",
                    hint="write the name of one tool after the source",
                )
            files: dict[str, OfferedFile] = {}
            for path, file in listing.files.items():
                if _folder_of(path, chosen) is not None:
                    files[path] = file
            contents = await read_contents_of(source, files)
            with staging_folder(self.root) as place:
                tools = [
                    _checked(source.title, folder, contents, rename, place) for folder in chosen
                ]
            title = own_redactor().redact_text(source.title)
            offered = Offered(title, source.kind, source.facts(), tools)
        self._check_names(offered)
        return offered

    @asynccontextmanager
    async def _opened(self, text: str) -> AsyncIterator[ToolSource]:
        kind, path = _recognize(text)
        if kind == "folder":
            yield FolderSource(path)
        elif kind == "archive":
            yield ArchiveSource(path)
        else:
            async with ChildProcesses() as processes:
                with staging_folder(self.root) as place:
                    folder = place / "repository"
                    if kind == "repository":
                        yield RepositorySource.at(path, folder, processes)
                    else:
                        yield RepositorySource(text, folder, processes)

    async def _choose(
        self, source: ToolSource, listing: Listing, wanted: Sequence[str]
    ) -> dict[str, str]:
        """Return the folders of the wanted tools with their names."""
        folders = roots(listing.files, FILE)
        if not folders:
            hint = (
                f"a tool is a folder with a {FILE} and a program; "
                "for an example, run: forge tools new NAME"
            )
            raise SourceError(f"{source.title} contains no {FILE}, so no tool", hint=hint)
        if len(folders) > MAX_TOOLS:
            raise SourceError(
                f"{source.title} contains {len(folders)} tools; the limit is {MAX_TOOLS}",
                hint="name the folder of one of them",
            )
        # Only the manifests are read yet: their names decide which tools are wanted.
        files = {each: listing.files[each] for each in (_join(folder, FILE) for folder in folders)}
        read = await read_contents_of(
            source, {path: _manifest_file(file) for path, file in files.items()}
        )
        names = {folder: _name_in(read[_join(folder, FILE)].data, folder) for folder in folders}
        chosen: dict[str, str] = {}
        for folder, name in names.items():
            # A tool may be named by its folder or by the name in its manifest.
            if not wanted or folder in wanted or name in wanted:
                chosen[folder] = name
        for name in wanted:
            if not any(name in each for each in chosen.items()):
                hint = did_you_mean(name, names.values())
                raise UsageError(f"there is no tool {shown(name)} in {source.title}", hint=hint)
        for name in chosen.values():
            same = [other for other, named in chosen.items() if named == name]
            if len(same) > 1:
                folders_of_name = ", ".join(same)
                raise SourceError(
                    f"{source.title} contains {len(same)} tools named {name}: {folders_of_name}",
                    hint="write the folder of one of them after the source",
                )
        return chosen

    def _check_names(self, offered: Offered) -> None:
        """Refuse names that are taken, before the person is asked."""
        for tool in offered.tools:
            self._check_free(tool.name)

    def _check_free(self, name: str) -> None:
        if os.path.lexists(self.root / name):  # a broken link takes the name as well
            problem = f"the tool {shown(name)} exists already in {self.root / name}"
            hint = f"import it as --as NAME, or remove the other: forge tools remove {name}"
            raise UsageError(problem, hint=hint)

    def install(self, offered: Offered) -> list[Path]:
        """Move the tools in and return their folders; if one cannot be moved, move none."""
        records, moved = ImportRecords(self.home), list[str]()
        with staging_folder(self.root) as place:
            try:
                for tool in offered.tools:
                    write_contents(place / tool.name, tool.contents, {})
                for tool in offered.tools:
                    self._check_free(tool.name)
                    moved.append(tool.name)  # before the move, which may be interrupted
                    records.keep(tool.name, _record(offered, tool))
                    (place / tool.name).rename(self.root / tool.name)
                sync_folder(self.root)
            except BaseException as error:
                for name in moved:
                    self._take_back(name, place / name, records)
                if isinstance(error, OSError):
                    problem = f"cannot write to {self.root}: {error.strerror or error}"
                    hint = "nothing was imported; free some space, or make the folder writable"
                    raise ForgeError(problem, hint=hint) from None
                raise
        registry, versions, stats = Registry(self.root), Versions(self.home), Stats(self.root)
        for tool in offered.tools:
            # An earlier tool of the same name may have left approvals and feedback.
            Approved(self.home).forget(tool.name)
            FeedbackStore(self.home).forget(tool.name)
            stats.created(tool.name)
            if program := registry.look(tool.name):
                versions.keep_program(program)
        return [self.root / tool.name for tool in offered.tools]

    def _take_back(self, name: str, staged: Path, records: ImportRecords) -> None:
        """Undo the move of one tool, but only if it was moved."""
        if not staged.exists():
            (self.root / name).rename(staged)
        records.forget(name)


def _recognize(text: str) -> tuple[Literal["folder", "archive", "repository", "address"], Path]:
    """Return the kind of a source, and its path.

    An existing path has priority over an address. A local folder counts as a repository only if it
    is a bare one.
    """
    path = Path(os.path.abspath(Path(text).expanduser()))
    if path.is_dir():
        is_repository = is_bare_repository(path) and not (path / FILE).exists()
        return ("repository" if is_repository else "folder"), path
    if path.is_file():
        return "archive", path
    if is_address(text) and not path.exists():
        return "address", path
    problem = "is neither a folder nor a file" if path.exists() else "does not exist"
    hint = "name a folder, an archive (.zip, .tar.gz), or the address of a git repository"
    raise UsageError(f"{shown(text)} {problem}", hint=hint)


def _record(offered: Offered, tool: FoundTool) -> Imported:
    renamed = {"name": tool.declared} if tool.declared != tool.name else {}
    about = {
        "source": offered.source,
        "kind": offered.kind,
        "folder": tool.folder,
        **offered.facts,
        **renamed,
    }
    return Imported.now(digest=tool.program.digest, **about)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _folder_of(path: str, folders: Iterable[str]) -> str | None:
    return next((each for each in folders if not each or path.startswith(f"{each}/")), None)


def _manifest_file(file: OfferedFile) -> OfferedFile:
    if file.problem is None and file.size > MANIFEST_LIMIT:
        return replace(file, problem=f"is larger than {MANIFEST_LIMIT // 1024} KiB")
    return file


def _name_in(data: bytes, folder: str) -> str:
    """Return the name in a ``tool.yaml``, or the name of its folder if it cannot be read."""
    try:
        return str(parse_document(data, FILE)["name"])
    except (ForgeError, KeyError):
        return folder.rpartition("/")[2]


def _checked(
    title: str, folder: str, contents: Contents, rename: str | None, place: Path
) -> FoundTool:
    """Write a tool of a source to ``place`` and check it like the tools in the home."""
    start = f"{folder}/" if folder else ""
    own: dict[str, Content] = {}
    for path, content in contents.items():
        if path.startswith(start):
            own[path.removeprefix(start)] = content
    label = f"{title}/{_join(folder, FILE)}"
    declared = parse_manifest(parse_document(own[FILE].data, label), label).name
    name = declared if rename is None else rename
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{shown(name)} is not a valid tool name; {NAME_RULE}",
            hint="choose another with --as NAME",
        )
    if name != declared:
        own[FILE] = Content(_renamed(own[FILE].data, name, label), own[FILE].executable)
    write_contents(place / name, own, {})
    registry = Registry(place)
    program = registry.look(name)
    if program is None:
        # The problem names the temporary folder, which the user has never seen.
        raise WorkerError(
            None,
            registry.problems[name].replace(f"{place / name}", f"{title}/{folder}".rstrip("/")),
        )
    entrypoint = os.path.relpath(program.entrypoint, os.path.realpath(program.folder))
    return FoundTool(folder, declared, program, entrypoint, own)


def _renamed(data: bytes, name: str, label: str) -> bytes:
    """Return a ``tool.yaml`` in which only the name is replaced."""
    before = parse_document(data, label)
    at = before.values_at["name"]
    lines = data.decode().split("\n")
    head, rest = lines[at.line - 1][: at.column - 1], lines[at.line - 1][at.column - 1 :]
    old = re.escape(before["name"])
    lines[at.line - 1] = head + re.sub(
        f"^(?:{old}|'{old}'|\"{old}\")", lambda _: f'"{name}"', rest, count=1
    )
    # YAML has more ways to write a name than the pattern matches, so check the result.
    renamed = "\n".join(lines).encode()
    if parse_document(renamed, label) != {**before, "name": name}:
        raise WorkerError(
            at, f"name: cannot be replaced by {shown(name)} here; write it without escapes"
        )
    return renamed
