"""Files as the tools hold, read and change them: stamped before a change, so that what was shown is what is written."""

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
"""Characters of a diff that the model reads: it wrote the change itself."""
DIFF_MAX = 100_000
T = TypeVar("T")
ABSENT = "absent"
SHOWN_MAX = 4 * ORIGINAL_LIMIT
"""Bytes of a file that a diff repeats, if at all: a character takes no more than four."""


def for_model(summary: str, lines: Iterable[str]) -> str:
    """One line, and what changed below it, up to a bound."""
    diff = cut("\n".join(lines), MODEL_DIFF_MAX)
    return f"{summary}\n{diff}" if diff else summary


def holds_secrets(*paths: str) -> bool:
    """Return True if a file or a folder on one of the paths has a name of such that hold secrets."""
    return any(is_secret(name) for name in "/".join(paths).split("/"))


def patch_result(changes: Sequence[Change]) -> Custom:
    """The files of a patch; the model reads again what was changed in them, not what was added or deleted."""
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
    """The files of a patch as people read them."""
    lines = [_letters(value.data), *(each["diff"].removesuffix("\n") for each in value.data)]
    return Text("\n".join(lines), DisplayHints(language="diff"))


def _letters(files: Sequence[dict[str, str]]) -> str:
    return "  ".join(f"{LETTERS[each['change']]} {each['path']}" for each in files)


class Edit(Struct, frozen=True):
    """A replacement that fits the file as it is now."""

    path: str
    replaced: Replaced
    stamp: str
    """Of the content that it fits."""
    quiet: bool
    """The file may hold secrets: the model reads none of its lines."""

    @property
    def data(self) -> bytes:
        return self.replaced.after.encode()

    @property
    def changes(self) -> list[str]:
        """The lines of a unified diff."""
        return unified_diff(self.replaced.before, self.replaced.after, self.path, self.path)

    def preview(self) -> Diff | Text:
        """The change, also in a file that is too long to be repeated."""
        diff = self.diff()
        return (
            Text("\n".join(self.changes), DisplayHints("code", "diff"))
            if diff.original is None
            else diff
        )

    def diff(self) -> Diff:
        lines = self.replaced.lines
        where = (
            f"line {lines[0]}"
            if len(lines) == 1
            else f"{len(lines)} places, the first at line {lines[0]}"
        )
        summary = f"Changed {self.path} at {where}."
        text = summary if self.quiet else for_model(summary, self.changes[2:])
        return replace(
            Diff.of(self.path, self.replaced.before, self.replaced.after), model_text=text
        )


async def plan_edit(file: HeldFile, path: str, old: str, new: str, *, everywhere: bool) -> Edit:
    """The new content of a file; a ToolError where the old text is not there, or in more places than one."""
    if file.kind is None:
        raise ToolError(f"{shown(path)} does not exist; make a new file with write_file")
    data, quiet = file.read(), holds_secrets(path, file.virtual)
    from forge_cli.sandbox.patches.replace import replace_text

    work = partial(replace_text, path, data, old, new, everywhere=everywhere, quiet=quiet)
    replaced = (
        work() if len(data) <= SHOWN_MAX else await to_thread.run_sync(work, abandon_on_cancel=True)
    )
    return Edit(path, replaced, digest_of(data), quiet)


def spell(view: SandboxView, path: str) -> str:
    """A path as results name it."""
    return file_operations(view).spell(path)


def hold(
    view: SandboxView, path: str, access: Access, *, follow: bool = True
) -> AbstractContextManager[HeldFile]:
    return file_operations(view).hold(path, access, follow=follow)


async def look_at(look: Callable[[HeldFile], T], file: HeldFile) -> T:
    """Look at a file; a large one in a thread, because all of it is hashed."""
    if file.kind != "file" or file.info().size <= SHOWN_MAX:
        return look(file)
    return await to_thread.run_sync(look, file, abandon_on_cancel=True)


def current(file: HeldFile) -> tuple[bytes | None, str]:
    """The content of a file now, as far as a diff shows it, with a stamp; None where there is none, and for folders."""
    if file.kind != "file":
        return None, ABSENT
    data = file.read(SHOWN_MAX + 1)
    return data, digest_of(data) if len(data) <= SHOWN_MAX else file.digest()


def entry_stamp(file: HeldFile) -> str:
    return file.digest() if file.kind == "file" else str(file.kind)


def not_restored(file: HeldFile) -> str | None:
    """A note on a file that could not be restored, for the person who is asked."""
    return f"forge undo will not restore it: {file.unkept}" if file.unkept else None


def diff(path: str, before: bytes | None, content: str) -> Diff:
    try:
        return Diff.of(path, None if before is None else before.decode(), content)
    except UnicodeDecodeError:
        return Diff(path, None, content, is_new=False, bytes_written=len(content.encode()))


def read_text(
    view: SandboxView, path: str, offset: int, limit: int | None, *, numbered: bool
) -> FileContent:
    with hold(view, path, Access.READ) as file:
        size, part = file.info().size, offset > 1 or limit is not None
        if size > READ_MAX and not part:
            raise ToolError(
                f"{path} has {size} bytes; read some lines of it at a time, with offset and limit"
            )
        whole = file.read() if size <= READ_MAX else None
        _check_text(path, file.read(_BEGINNING) if whole is None else whole, size)
        data = file.read_lines(offset, limit) if whole is None or part else whole
    try:
        return FileContent(
            spell(view, path),
            data.decode(),
            size=size if part else len(data),
            first_line=offset,
            total_lines=None
            if whole is None
            else whole.count(b"\n") + (whole[-1:] not in (b"", b"\n")),
            numbered=numbered or None,
        )
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text ({size} bytes)") from None


_BEGINNING = 8192


def _check_text(path: str, data: bytes, size: int) -> None:
    if b"\0" in data[:_BEGINNING]:
        raise ToolError(f"{path} is a binary file of {size} bytes; file_info tells its size")


def check_content(args: Args, context: CallContext) -> bool:
    """Before anybody is asked; a program may put a rule of its own in the place of this one."""
    refuse_redacted(args["path"], args["content"], context.sandbox)
    return False


def refuse_redacted(path: str, content: str, sandbox: SandboxView) -> None:
    if has_mark(content):
        from forge_cli.sandbox.patches.plan import file_reader

        refuse_marks([file_reader(file_operations(sandbox))(path)], [content.encode()])


def refuse_marks_in(changes: Sequence[Change]) -> None:
    refuse_marks((change.before for change in changes), (change.after for change in changes))


def refuse_marks(before: Iterable[bytes | None], after: Iterable[bytes | None]) -> None:
    old, new = (b"\n".join(filter(None, data)).decode(errors="replace") for data in (before, after))
    if mark := added_mark(old, new):
        raise ToolError(
            f"nothing was written: {mark} stands where a secret was redacted, and is not content for a file; "
            "change only the other lines, with edit_file or apply_patch"
        )
