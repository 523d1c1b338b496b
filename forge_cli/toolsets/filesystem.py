"""The toolset ``filesystem``: files inside the zones of the sandbox, with the change shown before it is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Annotated, Any, Self

from pydantic import Field

from forge_cli.core.approval import Approval, Effect, Verdict
from forge_cli.core.errors import BlockedError, Stale, ToolError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.results import ORIGINAL_LIMIT, Custom, Diff, DisplayHints, FileContent, FileList, Json, Text
from forge_cli.core.text import counted
from forge_cli.core.tool import READ_ONLY, Args, MakePreview, Preview, Tool, ToolContext, digest_of
from forge_cli.core.toolset import Toolset
from forge_cli.sandbox import patches
from forge_cli.sandbox.files.sandbox import Access, Sandbox
from forge_cli.sandbox.search.grep import grep
from forge_cli.sandbox.search.tree import list_dir
from forge_cli.sandbox.secrets import added_mark, has_mark

PATH = "Virtual path: /ZONE/... (list / to see the zones)"
PathArgument = Annotated[str, Field(description=PATH, json_schema_extra={"format": "path"})]
EntryArgument = Annotated[str, Field(description=PATH, json_schema_extra={"format": "entry"})]
PATCH = "From '*** Begin Patch' to '*** End Patch', or a unified diff"
CHANGING = frozenset({Effect.READ, Effect.WRITE})
ABSENT = "absent"
SHOWN_MAX = 4 * ORIGINAL_LIMIT
"""Bytes of a file that a diff repeats, if at all: a character takes no more than four."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class FilesystemToolset(Toolset):
    name = "filesystem"

    async def __aenter__(self) -> Self:
        self._judged: dict[str, dict[str, str]] = {}
        return await super().__aenter__()

    async def tools(self) -> Sequence[Tool]:
        return self._tools

    @cached_property
    def _tools(self) -> list[Tool]:
        return [
            self._tool(self.read_file, Access.READ),
            Tool.from_function(
                self.write_file, needs_approval=self._write_word, preview=self._preview_write, effects=CHANGING
            ),
            self._tool(self.list_files, Access.LIST),
            self._tool(self.delete_file, Access.DELETE, preview=self._preview_delete),
            self._tool(self.file_exists, Access.INFO),
            self._tool(self.file_info, Access.INFO),
            self._tool(self.list_dir, Access.LIST),
            self._tool(self.grep_files, Access.INFO),
            Tool.from_function(
                self.apply_patch, needs_approval=self._patch_word, preview=self._preview_patch, effects=CHANGING
            ),
        ]

    def _tool(self, method: Callable[..., Any], access: Access, preview: MakePreview | None = None) -> Tool:
        """A method as a tool that asks the zones for its word."""
        effects = CHANGING if access.changes else READ_ONLY
        word = partial(self._word, access)
        return Tool.from_function(method, needs_approval=word, preview=preview, effects=effects)

    @property
    def sandbox(self) -> Sandbox:
        sandbox: Sandbox = self.env.sandbox
        return sandbox

    def _word(self, access: Access, args: Args) -> Verdict:
        return self.sandbox.judge(args["path"], access)

    async def read_file(
        self,
        path: PathArgument,
        offset: Annotated[int, Field(ge=1, description="First line to read, counted from 1")] = 1,
        limit: Annotated[int | None, Field(ge=1, description="How many lines to read at most")] = None,
        *,
        context: ToolContext,
    ) -> FileContent:
        """Read a text file."""
        data = self.sandbox.read_bytes(path, expected=context.paths.get("path"))
        text = _text(path, data)
        if offset > 1 or limit is not None:
            lines = _LINE.findall(text)
            if offset > max(len(lines), 1):
                raise ToolError(f"{path} has {len(lines)} lines, so there is nothing at line {offset}")
            text = "".join(lines[offset - 1 : None if limit is None else offset - 1 + limit])
        return FileContent(path, text, size=len(data))

    async def write_file(
        self,
        path: PathArgument,
        content: Annotated[str, Field(description="The whole new content of the file")],
        *,
        context: ToolContext,
    ) -> Diff:
        """Create a file, or replace its content; missing folders are made."""
        before, stamp = self._current(path)
        if context.stamp is not None and context.stamp != stamp:
            raise Stale(f"{path} has changed since it was shown")
        self.sandbox.write_bytes(path, content.encode(), expected=context.paths.get("path"))
        return _diff(path, before, content)

    async def list_files(self, path: PathArgument) -> FileList:
        """List a folder; names of folders end with a slash."""
        entries = self.sandbox.list(path)
        return FileList.of(
            path, tuple(f"{entry.name}/" if entry.kind == "directory" else entry.name for entry in entries)
        )

    async def delete_file(self, path: EntryArgument, *, context: ToolContext) -> Text:
        """Delete a file, an empty folder, or a link (never what it leads to)."""
        if context.stamp is not None and context.stamp != self._entry_stamp(path):
            raise Stale(f"{path} has changed since it was shown")
        self.sandbox.delete(path, expected=context.paths.get("path"))
        return Text(f"Deleted {path}.")

    async def file_exists(self, path: PathArgument) -> Json:
        """Tell whether a file or folder is there."""
        return Json({"path": path, "exists": self.sandbox.exists(path)})

    async def file_info(self, path: PathArgument) -> Json:
        """Tell kind, size and time of change of a file or folder."""
        info = self.sandbox.stat(path)
        changed = datetime.fromtimestamp(info.mtime, UTC).isoformat(timespec="seconds")
        return Json({"path": path, "kind": info.kind, "size": info.size, "modified": changed})

    async def list_dir(
        self,
        path: PathArgument,
        depth: Annotated[int, Field(ge=1, le=20, description="How many levels of folders")] = 2,
        limit: Annotated[int, Field(ge=1, le=5000, description="How many entries at most")] = 200,
    ) -> FileList:
        """List a folder with what is in its folders."""
        return list_dir(self.sandbox, path, depth, limit)

    async def grep_files(
        self,
        pattern: Annotated[str, Field(min_length=1, description="A regular expression")],
        path: PathArgument = "/",
        include: Annotated[str | None, Field(description="Only files whose name fits, such as *.py")] = None,
        limit: Annotated[int, Field(ge=1, le=2000, description="How many lines at most")] = 100,
    ) -> Text:
        """Search files for a regular expression; hidden files and what .gitignore names are left out."""
        return Text((await grep(self.sandbox, pattern, path, include, limit)).text())

    async def apply_patch(
        self,
        input: Annotated[str, Field(min_length=1, description=PATCH)],
        *,
        context: ToolContext,
    ) -> Custom:
        """Add, change, move and delete files by a patch, all of it or nothing."""
        changes = self._plan(input)
        if context.stamp is None:
            self._check_places(input, changes)
        elif context.stamp != patches.stamp(changes):
            raise Stale("the files have changed since the patch was shown")
        patches.apply(changes, self.sandbox)
        files = [{"path": change.path, "change": change.kind} for change in changes]
        told = "\n".join(f"{entry['change']} {entry['path']}" for entry in files)
        return Custom(
            "patch.result",
            files,
            summary=f"Patched {counted(len(files), 'file')}.",
            model_text=told,
        )

    def _plan(self, text: str) -> tuple[patches.Change, ...]:
        patch = patches.parse_patch(text, self.sandbox.zones)
        return patches.plan(patch, patches.reader(self.sandbox), self.sandbox.resolve)

    def _patch_word(self, args: Args) -> Verdict:
        """The strictest of what the zones say of every file that the patch names, and of those it leads to."""
        text = args["input"]
        named = patches.accesses(patches.parse_patch(text, self.sandbox.zones))
        verdicts = [self.sandbox.judge(path, access) for path, access in named]
        changes = self._plan(text)
        verdicts += [self.sandbox.judge(change.real, change.access) for change in changes]
        self._judged[text] = _places(changes)
        verdict = max(verdicts, key=lambda verdict: verdict.approval.strictness)
        if verdict.approval is not Approval.BLOCKED:
            _refuse_marks((change.before for change in changes), (change.after for change in changes))
        return verdict

    def _check_places(self, text: str, changes: Sequence[patches.Change]) -> None:
        """Without a prompt nothing but the verdict was bound to the files, and that only to those it was about."""
        if self._judged.pop(text, None) != _places(changes):
            self._refuse_blocked(text)
            raise Stale("the patch leads to other files than when it was judged")

    def _refuse_blocked(self, text: str) -> None:
        """A patch that asks again, or for the first time, may lead by now to what nobody can allow."""
        verdict = self._patch_word({"input": text})
        if verdict.approval is Approval.BLOCKED:
            raise BlockedError("apply_patch", verdict.reason)

    async def _preview_patch(self, args: Args, context: ToolContext) -> Preview:
        self._refuse_blocked(args["input"])
        changes = self._plan(args["input"])
        shown = Text("".join(change.unified() for change in changes), display=DisplayHints("code", "diff"))
        return Preview(shown, patches.stamp(changes), once=True)

    def _write_word(self, args: Args) -> Verdict:
        path, content = args["path"], args["content"]
        verdict = self.sandbox.judge(path, Access.WRITE)
        if verdict.approval is not Approval.BLOCKED and has_mark(content):
            _refuse_marks([patches.reader(self.sandbox)(path)], [content.encode()])
        return verdict

    async def _preview_write(self, args: Args, context: ToolContext) -> Preview:
        before, stamp = self._current(args["path"])
        return Preview(_diff(args["path"], before, args["content"]), stamp)

    async def _preview_delete(self, args: Args, context: ToolContext) -> Preview:
        path = args["path"]
        info = self.sandbox.stat(path, follow=False)
        size = f" ({info.size} bytes)" if info.kind == "file" else ""
        return Preview(Text(f"deletes the {info.kind} {path}{size}"), self._entry_stamp(path))

    def _entry_stamp(self, path: str) -> str:
        kind = self.sandbox.stat(path, follow=False).kind
        return self.sandbox.digest(path) if kind == "file" else kind

    def _current(self, path: str) -> tuple[bytes | None, str]:
        """What a file holds now, as far as a diff shows it, with a stamp; None where there is none, and for folders."""
        if not self.sandbox.exists(path) or self.sandbox.stat(path).kind != "file":
            return None, ABSENT
        data = self.sandbox.read_bytes(path, limit=SHOWN_MAX + 1)
        return data, digest_of(data) if len(data) <= SHOWN_MAX else self.sandbox.digest(path)


def _places(changes: Sequence[patches.Change]) -> dict[str, str]:
    return {change.path: change.real for change in changes}


def _refuse_marks(before: Iterable[bytes | None], after: Iterable[bytes | None]) -> None:
    """What a transcript shows in the place of a secret must not get into a file in its place."""
    old, new = (b"\n".join(filter(None, data)).decode(errors="replace") for data in (before, after))
    if mark := added_mark(old, new):
        raise ToolError(
            f"nothing was written: {mark} stands where a secret was taken out, and is no content for a file; "
            "change only the other lines, with apply_patch"
        )


def _text(path: str, data: bytes) -> str:
    if b"\0" in data[:8192]:
        raise ToolError(f"{path} is a binary file of {len(data)} bytes; file_info tells its size")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{path} is no UTF-8 text ({len(data)} bytes)") from None


def _diff(path: str, before: bytes | None, content: str) -> Diff:
    return Diff.of(path, None if before is None else before.decode(errors="replace"), content)


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [FilesystemToolset]
