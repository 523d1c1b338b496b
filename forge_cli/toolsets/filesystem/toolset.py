"""The tools of the toolset ``filesystem``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from forge_cli.core.approval import Effect
from forge_cli.core.context import CallContext, ToolContext
from forge_cli.core.errors import Stale, ToolError
from forge_cli.core.hookspecs import Renderer, hookimpl
from forge_cli.core.media import DisplayHints
from forge_cli.core.results import Custom, Diff, FileContent, FileList, Json, Text
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.text import counted
from forge_cli.core.tool import LONGEST, Args, Preview, RefusesOnly
from forge_cli.core.zones import Access, Zone, ZoneMode
from forge_cli.sandbox.files.sandbox import Sandbox, file_operations
from forge_cli.schema.config import Config
from forge_cli.schema.json.signature import signature_model
from forge_cli.schema.paths import PathArgument, PathUse
from forge_cli.schema.tool import Tool
from forge_cli.schema.tool_fields import READ_ONLY
from forge_cli.schema.toolset import Toolset, ToolsetConfig, ToolsetEnv
from forge_cli.toolsets.filesystem.files import (
    KIND,
    Edit,
    check_content,
    current,
    diff,
    draw_patch,
    entry_stamp,
    hold,
    look_at,
    not_restored,
    patch_result,
    plan_edit,
    read_text,
    refuse_marks,
    refuse_marks_in,
    refuse_redacted,
    spell,
)

if TYPE_CHECKING:
    from forge_cli.sandbox.patches.model import Change

PATCH = """Add, change, move and delete files by a patch: all of it, or nothing.
"@@" begins each place in a file: lines with " " stay, "-" removes and "+" adds a line. For example:
*** Begin Patch
*** Update File: src/app.py
@@
 def main():
-    run()
+    run(fast=True)
*** Add File: notes.txt
+A line of the new file.
*** Delete File: old.txt
*** End Patch
"*** Move to: PATH" below "*** Update File" renames the file. A unified diff works, too."""
_NAMED = 6
"""Zones that the description of a path names."""
ReadFile = Annotated[str, PathArgument(Access.READ, "file")]
WriteFile = Annotated[str, PathArgument(Access.WRITE)]
DeleteFile = Annotated[str, PathArgument(Access.DELETE)]
ListedFolder = Annotated[str, PathArgument(Access.LIST)]
AnyPath = Annotated[str, PathArgument(Access.INFO)]
PATCH_TEXT = "From '*** Begin Patch' to '*** End Patch'"
MAX_LISTED = 5000
"""Entries of a listing; further ones are only counted."""
CHANGING = frozenset({Effect.READ, Effect.WRITE})


class PathTexts(Struct, frozen=True):
    """Descriptions of path parameters, depending on the zones."""

    zones: Sequence[Zone] = ()
    here: Zone | None = None
    """The zone of the working directory."""

    @classmethod
    def of(cls, sandbox: SandboxView | None) -> PathTexts:
        return cls() if sandbox is None else cls(sandbox.zones, _working_zone(sandbox))

    @property
    def default(self) -> str:
        """The default folder to list and search: the working directory, or all zones."""
        return "/" if self.zones and self.here is None else "."

    def describe(self, access: Access) -> str:
        usable = [zone for zone in self.zones if zone.mode is ZoneMode.RW or not access.changes]
        if self.zones and not usable:
            return "No folder can be changed here"
        others = sorted(f"/{zone.name}/..." for zone in usable if zone != self.here)
        if len(others) > _NAMED:
            others = [*others[:_NAMED], "another zone"]
        named = _either(others)
        if not self.zones or self.here in usable:
            return "Relative to the working directory" + (f", or {named}" if others else "")
        return f"{named}; / lists these" if access is Access.LIST else named


def _working_zone(sandbox: SandboxView) -> Zone | None:
    try:
        _, name, *_ = sandbox.resolve(".").split("/")
    except ToolError:
        return None
    return next((zone for zone in sandbox.zones if zone.name == name), None)


def _either(names: Sequence[str]) -> str:
    *first, last = names or [""]
    return f"{', '.join(first)} or {last}" if first else last


class AcceptedEdits(Config):
    """``policy.filesystem`` in the user's own config."""

    edits: list[str] = Field(default=[])
    """Folders in which workers may edit files without asking unless they say otherwise."""


class FilesystemToolset(Toolset):
    """Tools that read, write and search files in the zones."""

    name = "filesystem"
    Policy = AcceptedEdits
    needs_zone = True

    def __init__(
        self, config: Sandbox | ToolsetConfig | None = None, env: ToolsetEnv | None = None
    ) -> None:
        """Programs may pass a sandbox: ``FilesystemToolset(sandbox)``."""
        self.own_sandbox = config if isinstance(config, Sandbox) else None
        super().__init__(None if isinstance(config, Sandbox) else config, env)

    async def tools(self) -> Sequence[Tool]:
        return self._tools

    @cached_property
    def _tools(self) -> list[Tool]:
        """The tools; each pre-approves itself, because zones decide about its paths."""
        sandbox: SandboxView | None = self.own_sandbox
        if sandbox is None and hasattr(self, "env"):  # a program may pass neither
            sandbox = self.env.sandbox
        make = partial(_tool, PathTexts.of(sandbox))
        reading = partial(make, needs_approval=False, effects=READ_ONLY, timeout=LONGEST)
        changing = partial(make, effects=CHANGING)
        return [
            reading(self.read_file, Access.READ),
            changing(
                self.write_file,
                Access.WRITE,
                needs_approval=check_content,
                preview=self._preview_write,
            ),
            changing(
                self.edit_file, Access.WRITE, needs_approval=_check_edit, preview=self._preview_edit
            ),
            reading(self.list_files, Access.LIST),
            changing(
                self.delete_file, Access.DELETE, needs_approval=False, preview=self._preview_delete
            ),
            reading(self.file_exists, Access.INFO),
            reading(self.file_info, Access.INFO),
            reading(self.list_dir, Access.LIST),
            reading(self.grep_files, Access.LIST, needs_approval=RefusesOnly(_check_search)),
            changing(
                self.apply_patch,
                Access.WRITE,
                needs_approval=self._check_patch,
                preview=self._preview_patch,
                touches=self._patch_paths,
                description=PATCH,
            ),
        ]

    async def read_file(
        self,
        path: ReadFile,
        offset: Annotated[int, Field(ge=1, description="First line to read, counted from 1")] = 1,
        limit: Annotated[
            int | None, Field(ge=1, description="Lines to read at most; leave it out to read all")
        ] = None,
        numbered: Annotated[bool, Field(description="Put its number before each line")] = True,
        *,
        context: ToolContext,
    ) -> FileContent:
        """Read a text file, or some lines of it."""
        read = partial(read_text, context.sandbox, path, offset, limit, numbered=numbered)
        return await to_thread.run_sync(read, abandon_on_cancel=True)

    async def write_file(
        self,
        path: WriteFile,
        content: Annotated[str, Field(description="The whole new content of the file")],
        *,
        context: ToolContext,
    ) -> Diff:
        """Create a file, or replace all of its content; missing folders are made."""
        # Again, because a program may have replaced ``check_content``.
        refuse_redacted(path, content, context.sandbox)
        with hold(context.sandbox, path, Access.WRITE) as file:
            before, stamp = await look_at(current, file)
            if context.stamp is not None and context.stamp != stamp:
                raise Stale(f"{path} has changed since it was shown")
            file.write(content.encode())
        return diff(spell(context.sandbox, path), before, content)

    async def edit_file(
        self,
        path: WriteFile,
        old: Annotated[
            str, Field(description="The text to replace, copied exactly, without line numbers")
        ],
        new: Annotated[str, Field(description="The text to put in its place")],
        all: Annotated[
            bool, Field(description="Replace every occurrence; else there must be only one")
        ] = False,
        *,
        context: ToolContext,
    ) -> Diff:
        """Replace a text in a file; everything else in the file stays as it is."""
        with hold(context.sandbox, path, Access.WRITE) as file:
            edit = await plan_edit(file, spell(context.sandbox, path), old, new, everywhere=all)
            if context.stamp not in (None, edit.stamp):
                raise Stale(f"{path} has changed since it was shown")
            _refuse_marks_of(edit)
            file.write(edit.data)
        return edit.diff()

    async def list_files(self, path: ListedFolder = ".", *, context: ToolContext) -> FileList:
        """List a folder; names of folders end with a slash."""
        entries = await to_thread.run_sync(context.sandbox.list, path, abandon_on_cancel=True)
        names = (f"{entry.name}/" if entry.kind == "directory" else entry.name for entry in entries)
        return FileList(
            spell(context.sandbox, path), tuple(islice(names, MAX_LISTED)), len(entries)
        )

    async def delete_file(self, path: DeleteFile, *, context: ToolContext) -> Text:
        """Delete a file, an empty folder, or a link (never what it leads to)."""
        with hold(context.sandbox, path, Access.DELETE) as file:
            if context.stamp is not None and context.stamp != await look_at(entry_stamp, file):
                raise Stale(f"{path} has changed since it was shown")
            file.delete()
        return Text(f"Deleted {spell(context.sandbox, path)}.")

    async def file_exists(self, path: AnyPath, *, context: ToolContext) -> Json:
        """Check whether a file or folder exists."""
        name = spell(context.sandbox, path)
        exists = context.sandbox.exists(path)
        text = f"{name} {'exists' if exists else 'does not exist'}."
        return Json({"path": name, "exists": exists}, model_text=text)

    async def file_info(self, path: AnyPath, *, context: ToolContext) -> Json:
        """Get the kind, size and modification time of a file or folder."""
        name = spell(context.sandbox, path)
        info = context.sandbox.stat(path)
        changed = datetime.fromtimestamp(info.mtime, UTC).isoformat(timespec="seconds")
        size = f" of {counted(info.size, 'byte')}" if info.kind == "file" else ""
        text = f"{name} is a {info.kind}{size}, changed {changed}."
        return Json(
            {"path": name, "kind": info.kind, "size": info.size, "modified": changed},
            model_text=text,
        )

    async def list_dir(
        self,
        path: ListedFolder = ".",
        depth: Annotated[int, Field(ge=1, le=20, description="How many levels of folders")] = 2,
        limit: Annotated[
            int, Field(ge=1, le=MAX_LISTED, description="How many entries at most")
        ] = 200,
        *,
        context: ToolContext,
    ) -> FileList:
        """List a folder and its subfolders."""
        from forge_cli.sandbox.search.files import list_dir

        look = partial(list_dir, file_operations(context.sandbox), path, depth, limit)
        return await to_thread.run_sync(look, abandon_on_cancel=True)

    async def grep_files(
        self,
        pattern: Annotated[str, Field(min_length=1, description="A regular expression")],
        path: AnyPath = ".",
        include: Annotated[
            str | None, Field(description="Only files whose name fits, such as *.py")
        ] = None,
        limit: Annotated[int, Field(ge=1, le=2000, description="How many lines at most")] = 100,
        *,
        context: ToolContext,
    ) -> Text:
        """Search files for a regular expression; skips hidden files and those in .gitignore."""
        from forge_cli.sandbox.search.grep import grep

        return Text(
            (await grep(file_operations(context.sandbox), pattern, path, include, limit)).text()
        )

    async def apply_patch(
        self,
        input: Annotated[str, Field(min_length=1, description=PATCH_TEXT)],
        *,
        context: ToolContext,
    ) -> Custom:
        """Add, change, move and delete files by a patch: all of it or nothing."""
        from forge_cli.sandbox.patches.plan import apply_plan, patch_stamp

        changes = _plan(input, context.sandbox)
        refuse_marks_in(changes)
        if context.stamp not in (None, patch_stamp(changes)):
            raise Stale("the files have changed since the patch was shown")
        apply_plan(changes, file_operations(context.sandbox))
        return patch_result(_spelled(changes, context.sandbox))

    def _patch_paths(self, args: Args) -> Iterator[PathUse]:
        """Yield every file that a patch names, with the access that it needs."""
        from forge_cli.sandbox.patches.model import patch_accesses
        from forge_cli.sandbox.patches.parse import parse_patch

        zones = (self.own_sandbox or self.env.sandbox).zones
        for path, access in patch_accesses(parse_patch(args["input"], zones)):
            yield PathUse(path, access)

    def _check_patch(self, args: Args, context: CallContext) -> bool:
        refuse_marks_in(_plan(args["input"], context.sandbox))
        return False

    async def _preview_patch(self, args: Args, context: ToolContext) -> Preview:
        from forge_cli.sandbox.patches.model import recap_changes
        from forge_cli.sandbox.patches.plan import patch_stamp

        changes = _plan(args["input"], context.sandbox)
        diffs = [change.unified() for change in _spelled(changes, context.sandbox)]
        shown = Text("".join(diffs), display=DisplayHints("code", "diff"))
        return Preview(
            shown, patch_stamp(changes), once=True, shows=("input",), recap=recap_changes(changes)
        )

    async def _preview_write(self, args: Args, context: ToolContext) -> Preview:
        # Only the call itself has consent to write.
        with hold(context.sandbox, args["path"], Access.READ) as file:
            before, stamp = await look_at(current, file)
            recap = not_restored(file)
        shown = diff(spell(context.sandbox, args["path"]), before, args["content"])
        return Preview(shown, stamp, shows=("content",), recap=recap)

    async def _preview_edit(self, args: Args, context: ToolContext) -> Preview:
        edit = await _planned_edit(args, context.sandbox)
        return Preview(edit.preview(), edit.stamp, shows=("old", "new"))

    async def _preview_delete(self, args: Args, context: ToolContext) -> Preview:
        path = args["path"]
        # A link is deleted itself, and never its target.
        with hold(context.sandbox, path, Access.INFO, follow=False) as file:
            info = file.info()
            size = f" ({info.size} bytes)" if info.kind == "file" else ""
            what = f"deletes the {info.kind} {spell(context.sandbox, path)}{size}"
            return Preview(Text(what), await look_at(entry_stamp, file), recap=not_restored(file))


def _tool(texts: PathTexts, method: Callable[..., Any], access: Access, **given: Any) -> Tool:
    """Make a tool of a method; describe its path, and replace the path's default value."""
    path = inspect.signature(method).parameters.get("path")
    has_default = path is not None and path.default is not path.empty
    schema = signature_model(
        method,
        skip={"context"},
        texts={"path": texts.describe(access)},
        defaults={"path": texts.default} if has_default else {},
    )
    return Tool.from_function(method, schema=schema, **given)


async def _planned_edit(args: Args, sandbox: SandboxView) -> Edit:
    with hold(sandbox, args["path"], Access.READ) as file:
        return await plan_edit(
            file, spell(sandbox, args["path"]), args["old"], args["new"], everywhere=args["all"]
        )


async def _check_edit(args: Args, context: CallContext) -> bool:
    _refuse_marks_of(await _planned_edit(args, context.sandbox))
    return False


def _refuse_marks_of(edit: Edit) -> None:
    refuse_marks([edit.replaced.before.encode()], [edit.data])


def _plan(text: str, view: SandboxView) -> tuple[Change, ...]:
    from forge_cli.sandbox.patches.parse import parse_patch
    from forge_cli.sandbox.patches.plan import file_reader, plan_patch

    sandbox = file_operations(view)
    return plan_patch(parse_patch(text, sandbox.zones), file_reader(sandbox), sandbox.resolve)


def _spelled(changes: Sequence[Change], view: SandboxView) -> list[Change]:
    return [replace(change, path=spell(view, change.path)) for change in changes]


def _check_search(args: Args, context: CallContext) -> None:
    from forge_cli.sandbox.search.grep import refuse_secret

    refuse_secret(args["path"])


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [FilesystemToolset]


@hookimpl
def forge_renderers() -> dict[str, Renderer]:
    """Offer the renderer for results of patches."""
    return {KIND: draw_patch}
