"""Reading and changing files; a stamp ensures that the written change is the shown one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.context import CallContext
from forge_cli.core.errors import ToolError
from forge_cli.core.media import DisplayHints
from forge_cli.core.phrases import added_mark, has_mark
from forge_cli.core.results import ORIGINAL_LIMIT, Custom, Diff, FileContent, ResultValue, Text
from forge_cli.core.sandbox import READ_MAX, SandboxView
from forge_cli.core.text import counted, cut
from forge_cli.core.tool import Args, digest_of
from forge_cli.core.zones import Access
from forge_cli.files.difference import unified_diff
from forge_cli.sandbox.files.held import HeldFile
from forge_cli.sandbox.files.sandbox import file_operations
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.protected import is_secret

if TYPE_CHECKING:
    from forge_cli.sandbox.patches.model import Change
    from forge_cli.sandbox.patches.replace import Replaced

KIND = "patch.result"
LETTERS = {"created": "A", "changed": "M", "deleted": "D"}
MODEL_DIFF_MAX = 3000
"""Characters of a diff that the model gets; it wrote the change itself."""
DIFF_MAX = 100_000
T = TypeVar("T")
ABSENT = "absent"
SHOWN_MAX = 4 * ORIGINAL_LIMIT
"""Bytes of a file whose diff includes the original; a character has at most four."""


def for_model(summary: str, lines: Iterable[str]) -> str:
    """Return a summary and the changed lines below it, cut to MODEL_DIFF_MAX."""
    diff = cut("\n".join(lines), MODEL_DIFF_MAX)
    return f"{summary}\n{diff}" if diff else summary


def holds_secrets(*paths: str) -> bool:
    """Return True if the name of a file or folder in a path is one for secrets."""
    return any(is_secret(name) for name in "/".join(paths).split("/"))


def patch_result(changes: Sequence[Change]) -> Custom:
    """Return the result of a patch; the model gets the diffs of changed files only."""
    room = DIFF_MAX // len(changes)
    files = [
        {"path": each.path, "change": each.kind, "diff": cut(each.unified(), room)}
        for each in changes
    ]
    read = [
        each.unified()
        for each in changes
        if each.kind == "changed" and not holds_secrets(each.path, each.real)
    ]
    return Custom(
        KIND,
        files,
        summary=f"Patched {counted(len(files), 'file')}.",
        model_text=for_model(_letters(files), "".join(read).splitlines()),
    )


def draw_patch(value: Custom) -> ResultValue:
    """Return the files of a patch for people."""
    lines = [_letters(value.data), *(each["diff"].removesuffix("\n") for each in value.data)]
    return Text("\n".join(lines), DisplayHints(language="diff"))


def _letters(files: Sequence[dict[str, str]]) -> str:
    return "  ".join(f"{LETTERS[each['change']]} {each['path']}" for each in files)


class Edit(Struct, frozen=True):
    """A planned replacement in a file."""

    path: str
    replaced: Replaced
    stamp: str
    """The stamp of the content that it was planned for."""
    quiet: bool
    """True if the file may contain secrets, so that the model gets none of its lines."""

    @property
    def data(self) -> bytes:
        return self.replaced.after.encode()

    @property
    def changes(self) -> list[str]:
        """The lines of a unified diff."""
        return unified_diff(self.replaced.before, self.replaced.after, self.path, self.path)

    def preview(self) -> Diff | Text:
        """Return the change for an approval, without the original if that is too long."""
        diff = self.diff()
        if diff.original is None:
            return Text("\n".join(self.changes), DisplayHints("code", "diff"))
        return diff

    def diff(self) -> Diff:
        lines = self.replaced.lines
        where = f"line {lines[0]}"
        if len(lines) > 1:
            where = f"{len(lines)} places, the first at {where}"
        summary = f"Changed {self.path} at {where}."
        text = summary
        if not self.quiet:
            text = for_model(summary, self.changes[2:])  # without the lines with file names
        return replace(
            Diff.of(self.path, self.replaced.before, self.replaced.after), model_text=text
        )


async def plan_edit(file: HeldFile, path: str, old: str, new: str, *, everywhere: bool) -> Edit:
    """Plan a replacement; raise ToolError if the old text is missing or not unique."""
    if file.kind is None:
        raise ToolError(f"{shown(path)} does not exist; create files with write_file")
    data = file.read()
    quiet = holds_secrets(path, file.virtual)
    from forge_cli.sandbox.patches.replace import replace_text

    work = partial(replace_text, path, data, old, new, everywhere=everywhere, quiet=quiet)
    if len(data) <= SHOWN_MAX:
        replaced = work()
    else:
        replaced = await to_thread.run_sync(work, abandon_on_cancel=True)
    return Edit(path, replaced, digest_of(data), quiet)


def spell(view: SandboxView, path: str) -> str:
    """Return a path as results name it."""
    return file_operations(view).spell(path)


def hold(
    view: SandboxView, path: str, access: Access, *, follow: bool = True
) -> AbstractContextManager[HeldFile]:
    """Open the target of a path for one access, so that it cannot be replaced during the access."""
    return file_operations(view).hold(path, access, follow=follow)


async def look_at(look: Callable[[HeldFile], T], file: HeldFile) -> T:
    """Call a function on a file; in a thread if the file is large and takes long to hash."""
    if file.kind != "file" or file.info().size <= SHOWN_MAX:
        return look(file)
    return await to_thread.run_sync(look, file, abandon_on_cancel=True)


def current(file: HeldFile) -> tuple[bytes | None, str]:
    """Return the content of a file for a diff, and its stamp; None if it is no file."""
    if file.kind != "file":
        return None, ABSENT
    data = file.read(SHOWN_MAX + 1)
    if len(data) > SHOWN_MAX:
        return data, file.digest()
    return data, digest_of(data)


def entry_stamp(file: HeldFile) -> str:
    """Return the stamp of a file, or the kind of anything else."""
    return file.digest() if file.kind == "file" else str(file.kind)


def not_restored(file: HeldFile) -> str | None:
    """Return a note if ``forge undo`` could not restore the file, for the approval."""
    return f"forge undo will not restore it: {file.unkept}" if file.unkept else None


def diff(path: str, before: bytes | None, content: str) -> Diff:
    """Return the change of a file, without the old content if that is not text."""
    try:
        return Diff.of(path, None if before is None else before.decode(), content)
    except UnicodeDecodeError:
        return Diff(path, None, content, is_new=False, bytes_written=len(content.encode()))


def read_text(
    view: SandboxView, path: str, offset: int, limit: int | None, *, numbered: bool
) -> FileContent:
    """Read a text file or some of its lines; raise ToolError if it is not UTF-8."""
    with hold(view, path, Access.READ) as file:
        size = file.info().size
        part = offset > 1 or limit is not None
        if size > READ_MAX and not part:
            raise ToolError(f"{path} has {size} bytes; read a part of it with offset and limit")
        whole: bytes | None = None
        if size <= READ_MAX:
            whole = beginning = file.read()
        else:
            beginning = file.read(_BEGINNING)
        _check_text(path, beginning, size)
        data = file.read_lines(offset, limit) if whole is None or part else whole
    total_lines = None
    if whole is not None:
        # A last line without a line feed counts as well.
        total_lines = whole.count(b"\n") + (whole[-1:] not in (b"", b"\n"))
    try:
        return FileContent(
            spell(view, path),
            data.decode(),
            size=size if part else len(data),
            first_line=offset,
            total_lines=total_lines,
            numbered=numbered or None,
        )
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text ({size} bytes)") from None


_BEGINNING = 8192
"""Bytes that are searched for a NUL character, which shows that a file is binary."""


def _check_text(path: str, data: bytes, size: int) -> None:
    if b"\0" in data[:_BEGINNING]:
        raise ToolError(f"{path} is a binary file of {size} bytes")


def check_content(args: Args, context: CallContext) -> bool:
    """Refuse redacted content before the person is asked; a program may replace this check."""
    refuse_redacted(args["path"], args["content"], context.sandbox)
    return False


def refuse_redacted(path: str, content: str, sandbox: SandboxView) -> None:
    """Raise ToolError if new content has a mark of a redacted secret that the file lacks."""
    if has_mark(content):
        from forge_cli.sandbox.patches.plan import file_reader

        refuse_marks([file_reader(file_operations(sandbox))(path)], [content.encode()])


def refuse_marks_in(changes: Sequence[Change]) -> None:
    """Raise ToolError if a patch adds marks of redacted secrets."""
    refuse_marks((change.before for change in changes), (change.after for change in changes))


def refuse_marks(before: Iterable[bytes | None], after: Iterable[bytes | None]) -> None:
    """Raise ToolError if marks of redacted secrets were added."""
    old, new = (b"\n".join(filter(None, data)).decode(errors="replace") for data in (before, after))
    if mark := added_mark(old, new):
        raise ToolError(
            f"nothing was written: {mark} replaces a redacted secret and must not be written; "
            "change only the other lines, with edit_file or apply_patch"
        )
