"""The toolset ``filesystem``: files inside the zones of the sandbox, with the change shown before it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Annotated, Any, TypeVar

from anyio import to_thread
from pydantic import Field

from forge_cli.core.approval import Effect
from forge_cli.core.context import CallContext, ToolContext
from forge_cli.core.errors import Stale, ToolError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.paths import PathArgument, PathUse
from forge_cli.core.results import ORIGINAL_LIMIT, Custom, Diff, DisplayHints, FileContent, FileList, Json, Text
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.text import counted
from forge_cli.core.tool import LONGEST, READ_ONLY, Args, Preview, Tool, digest_of
from forge_cli.core.toolset import Toolset, ToolsetConfig, ToolsetEnv
from forge_cli.core.zones import Access
from forge_cli.sandbox import patches
from forge_cli.sandbox.files.held import READ_MAX, HeldFile
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.search.grep import grep
from forge_cli.sandbox.search.tree import list_dir
from forge_cli.sandbox.secrets import added_mark, has_mark

T = TypeVar("T")
PATH = "Virtual path: /ZONE/... (list / to see the zones)"
ReadFile = Annotated[str, PathArgument(Access.READ, "file"), Field(description=PATH)]
WriteFile = Annotated[str, PathArgument(Access.WRITE), Field(description=PATH)]
DeleteFile = Annotated[str, PathArgument(Access.DELETE), Field(description=PATH)]
ListedFolder = Annotated[str, PathArgument(Access.LIST), Field(description=PATH)]
AnyPath = Annotated[str, PathArgument(Access.INFO), Field(description=PATH)]
PATCH = "From '*** Begin Patch' to '*** End Patch', or a unified diff"
CHANGING = frozenset({Effect.READ, Effect.WRITE})
ABSENT = "absent"
SHOWN_MAX = 4 * ORIGINAL_LIMIT
"""Bytes of a file that a diff repeats, if at all: a character takes no more than four."""


class FilesystemToolset(Toolset):
    name = "filesystem"

    def __init__(self, config: Sandbox | ToolsetConfig | None = None, env: ToolsetEnv | None = None) -> None:
        """``FilesystemToolset(sandbox)`` is for programs: the zones are given, and not those of a worker file."""
        self.own_sandbox = config if isinstance(config, Sandbox) else None
        super().__init__(None if isinstance(config, Sandbox) else config, env)

    async def tools(self) -> Sequence[Tool]:
        return self._tools

    @cached_property
    def _tools(self) -> list[Tool]:
        """Each pre-approves itself: what its paths need is said by their zones."""
        reading: list[Callable[..., Any]] = [self.read_file, self.list_files, self.file_exists]
        reading += [self.file_info, self.list_dir, self.grep_files]
        read, listing, *others = [
            Tool.from_function(method, needs_approval=False, effects=READ_ONLY, timeout=LONGEST) for method in reading
        ]
        write = Tool.from_function(
            self.write_file, needs_approval=_check_content, preview=self._preview_write, effects=CHANGING
        )
        delete = Tool.from_function(
            self.delete_file, needs_approval=False, preview=self._preview_delete, effects=CHANGING
        )
        patch = Tool.from_function(
            self.apply_patch,
            needs_approval=self._check_patch,
            preview=self._preview_patch,
            touches=self._patch_paths,
            effects=CHANGING,
        )
        return [read, write, listing, delete, *others, patch]

    async def read_file(
        self,
        path: ReadFile,
        offset: Annotated[int, Field(ge=1, description="First line to read, counted from 1")] = 1,
        limit: Annotated[int | None, Field(ge=1, description="How many lines to read at most")] = None,
        *,
        context: ToolContext,
    ) -> FileContent:
        """Read a text file."""
        read = partial(_read, context.sandbox, path, offset, limit)
        return await to_thread.run_sync(read, abandon_on_cancel=True)

    async def write_file(
        self,
        path: WriteFile,
        content: Annotated[str, Field(description="The whole new content of the file")],
        *,
        context: ToolContext,
    ) -> Diff:
        """Create a file, or replace its content; missing folders are made."""
        _refuse_redacted(path, content, context.sandbox)
        with _held(context.sandbox, path, Access.WRITE) as file:
            before, stamp = await _look_at(_current, file)
            if context.stamp is not None and context.stamp != stamp:
                raise Stale(f"{path} has changed since it was shown")
            file.write(content.encode())
        return _diff(path, before, content)

    async def list_files(self, path: ListedFolder, *, context: ToolContext) -> FileList:
        """List a folder; names of folders end with a slash."""
        entries = context.sandbox.list(path)
        return FileList.of(
            path, tuple(f"{entry.name}/" if entry.kind == "directory" else entry.name for entry in entries)
        )

    async def delete_file(self, path: DeleteFile, *, context: ToolContext) -> Text:
        """Delete a file, an empty folder, or a link (never what it leads to)."""
        with _held(context.sandbox, path, Access.DELETE) as file:
            if context.stamp is not None and context.stamp != await _look_at(_entry_stamp, file):
                raise Stale(f"{path} has changed since it was shown")
            file.delete()
        return Text(f"Deleted {path}.")

    async def file_exists(self, path: AnyPath, *, context: ToolContext) -> Json:
        """Tell whether a file or folder is there."""
        return Json({"path": path, "exists": context.sandbox.exists(path)})

    async def file_info(self, path: AnyPath, *, context: ToolContext) -> Json:
        """Tell kind, size and time of change of a file or folder."""
        info = context.sandbox.stat(path)
        changed = datetime.fromtimestamp(info.mtime, UTC).isoformat(timespec="seconds")
        return Json({"path": path, "kind": info.kind, "size": info.size, "modified": changed})

    async def list_dir(
        self,
        path: ListedFolder,
        depth: Annotated[int, Field(ge=1, le=20, description="How many levels of folders")] = 2,
        limit: Annotated[int, Field(ge=1, le=5000, description="How many entries at most")] = 200,
        *,
        context: ToolContext,
    ) -> FileList:
        """List a folder with what is in its folders."""
        return list_dir(_whole(context.sandbox), path, depth, limit)

    async def grep_files(
        self,
        pattern: Annotated[str, Field(min_length=1, description="A regular expression")],
        path: AnyPath = "/",
        include: Annotated[str | None, Field(description="Only files whose name fits, such as *.py")] = None,
        limit: Annotated[int, Field(ge=1, le=2000, description="How many lines at most")] = 100,
        *,
        context: ToolContext,
    ) -> Text:
        """Search files for a regular expression; hidden files and what .gitignore names are left out."""
        return Text((await grep(_whole(context.sandbox), pattern, path, include, limit)).text())

    async def apply_patch(
        self,
        input: Annotated[str, Field(min_length=1, description=PATCH)],
        *,
        context: ToolContext,
    ) -> Custom:
        """Add, change, move and delete files by a patch, all of it or nothing."""
        changes = _plan(input, context.sandbox)
        _refuse_marks_in(changes)
        if context.stamp not in (None, patches.stamp(changes)):
            raise Stale("the files have changed since the patch was shown")
        patches.apply(changes, _whole(context.sandbox))
        files = [{"path": change.path, "change": change.kind} for change in changes]
        summary = "\n".join(f"{entry['change']} {entry['path']}" for entry in files)
        return Custom(
            "patch.result",
            files,
            summary=f"Patched {counted(len(files), 'file')}.",
            model_text=summary,
        )

    def _patch_paths(self, args: Args) -> Iterator[PathUse]:
        """Every file that a patch names, and what becomes of it."""
        zones = (self.own_sandbox or self.env.sandbox).zones
        for path, access in patches.accesses(patches.parse_patch(args["input"], zones)):
            yield PathUse(path, access)

    def _check_patch(self, args: Args, context: CallContext) -> bool:
        _refuse_marks_in(_plan(args["input"], context.sandbox))
        return False

    async def _preview_patch(self, args: Args, context: ToolContext) -> Preview:
        changes = _plan(args["input"], context.sandbox)
        shown = Text("".join(change.unified() for change in changes), display=DisplayHints("code", "diff"))
        recap = patches.recap(changes)
        return Preview(shown, patches.stamp(changes), once=True, shows=("input",), recap=recap)

    async def _preview_write(self, args: Args, context: ToolContext) -> Preview:
        with _held(context.sandbox, args["path"], Access.READ) as file:
            before, stamp = await _look_at(_current, file)
        return Preview(_diff(args["path"], before, args["content"]), stamp, shows=("content",))

    async def _preview_delete(self, args: Args, context: ToolContext) -> Preview:
        path = args["path"]
        with _held(context.sandbox, path, Access.INFO, follow=False) as file:
            info = file.info()
            size = f" ({info.size} bytes)" if info.kind == "file" else ""
            return Preview(Text(f"deletes the {info.kind} {path}{size}"), await _look_at(_entry_stamp, file))


def _whole(view: SandboxView) -> Sandbox:
    """The sandbox of a call with all that it can do, which is more than third-party tools are promised."""
    if not isinstance(view, Sandbox):
        raise TypeError(f"{view!r} is not a sandbox")
    return view


@contextmanager
def _held(view: SandboxView, path: str, access: Access, *, follow: bool = True) -> Iterator[HeldFile]:
    with _whole(view).hold(path, access, follow=follow) as file:
        yield file


def _plan(text: str, view: SandboxView) -> tuple[patches.Change, ...]:
    sandbox = _whole(view)
    return patches.plan(patches.parse_patch(text, sandbox.zones), patches.reader(sandbox), sandbox.resolve)


def _check_content(args: Args, context: CallContext) -> bool:
    """Before anybody is asked; a program may put a rule of its own in the place of this one."""
    _refuse_redacted(args["path"], args["content"], context.sandbox)
    return False


def _refuse_redacted(path: str, content: str, sandbox: SandboxView) -> None:
    if has_mark(content):
        _refuse_marks([patches.reader(_whole(sandbox))(path)], [content.encode()])


async def _look_at(look: Callable[[HeldFile], T], file: HeldFile) -> T:
    """Look at a file; a large one in a thread, because all of it is hashed."""
    if file.kind != "file" or file.info().size <= SHOWN_MAX:
        return look(file)
    return await to_thread.run_sync(look, file, abandon_on_cancel=True)


def _current(file: HeldFile) -> tuple[bytes | None, str]:
    """What a file holds now, as far as a diff shows it, with a stamp; None where there is none, and for folders."""
    if file.kind != "file":
        return None, ABSENT
    data = file.read(SHOWN_MAX + 1)
    return data, digest_of(data) if len(data) <= SHOWN_MAX else file.digest()


def _entry_stamp(file: HeldFile) -> str:
    return file.digest() if file.kind == "file" else str(file.kind)


def _refuse_marks_in(changes: Sequence[patches.Change]) -> None:
    _refuse_marks((change.before for change in changes), (change.after for change in changes))


def _refuse_marks(before: Iterable[bytes | None], after: Iterable[bytes | None]) -> None:
    """What a transcript shows in the place of a secret must not get into a file in its place."""
    old, new = (b"\n".join(filter(None, data)).decode(errors="replace") for data in (before, after))
    if mark := added_mark(old, new):
        raise ToolError(
            f"nothing was written: {mark} stands where a secret was redacted, and is not content for a file; "
            "change only the other lines, with apply_patch"
        )


def _read(view: SandboxView, path: str, offset: int, limit: int | None) -> FileContent:
    with _held(view, path, Access.READ) as file:
        size, part = file.info().size, offset > 1 or limit is not None
        if size > READ_MAX and not part:
            raise ToolError(f"{path} has {size} bytes; read some lines of it at a time, with offset and limit")
        if b"\0" in file.read(8192):
            raise ToolError(f"{path} is a binary file of {size} bytes; file_info tells its size")
        data = file.read_lines(offset, limit) if part else file.read()
    try:
        return FileContent(path, data.decode(), size=size if part else len(data))
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text ({size} bytes)") from None


def _diff(path: str, before: bytes | None, content: str) -> Diff:
    try:
        return Diff.of(path, None if before is None else before.decode(), content)
    except UnicodeDecodeError:
        return Diff(path, None, content, is_new=False, bytes_written=len(content.encode()))


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [FilesystemToolset]
