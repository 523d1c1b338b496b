"""The plan of a patch: the new contents of all files, then applied completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.errors import Stale, ToolError
from forge_cli.sandbox.files.operations import FileOperations
from forge_cli.sandbox.files.sandbox import worker_sandbox
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.patches.match import Form, Spot, Target
from forge_cli.sandbox.patches.model import (
    Add,
    Change,
    Delete,
    Hunk,
    Patch,
    PatchSource,
    SourceLine,
    Update,
)
from forge_cli.sandbox.protected import is_secret

Read = Callable[[str], bytes | None]
Resolve = Callable[[str], str]
# The most common widths first.
_TAB_WIDTHS = (4, 8, 2, 3)

Shift = Callable[[str], str | None]
Attributes = Mapping[str, os.stat_result | None]
"""The attributes of the files before anything was written."""


def plan_patch(patch: Patch, read: Read, resolve: Resolve = str) -> tuple[Change, ...]:
    """Return the change of every file, in the order of the patch.

    Operations on the same file build on each other. ``read`` returns the content of a path, or None
    if there is no file. ``resolve`` returns its canonical spelling.
    """
    files = _Files(read, resolve)
    for operation in patch.operations:
        match operation:
            case Add(path=path, content=content):
                files.create(path, content.encode())
            case Delete(path=path, hunks=hunks):
                _check_whole(files, path, hunks)
                files.delete(path)
            case Update():
                _update(files, operation)
    changes = tuple(files.changes())
    if not changes:
        raise ToolError("the patch changes nothing")
    return changes


@dataclass
class _Files:
    """The files named by a patch, before and after."""

    read: Read
    resolve: Resolve
    names: dict[str, str] = field(default_factory=dict)
    before: dict[str, bytes | None] = field(default_factory=dict)
    content: dict[str, bytes | None] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def real(self, path: str) -> str:
        real = self.resolve(path)
        if real not in self.names:
            self.names[real] = path
            self.before[real] = self.content[real] = self.read(path)
        return real

    def existing(self, path: str) -> bytes:
        content = self.content[self.real(path)]
        if content is None:
            raise ToolError(f"{shown(path)} does not exist{self._hint(path)}")
        return content

    def create(self, path: str, content: bytes) -> None:
        real = self.real(path)
        if self.content[real] is not None:
            raise ToolError(f"{shown(path)} already exists; update it, or delete it first")
        self.content[real] = content

    def move(self, source: str, target: str, content: bytes) -> None:
        real = self.real(source)
        if self.real(target) == real:
            raise ToolError(f"{shown(source)} cannot be moved to itself; remove the move")
        self.create(target, content)
        self.origins[self.real(target)] = self.origins.get(real, real)
        self.delete(source)

    def delete(self, path: str) -> None:
        self.content[self.real(path)] = None
        self.origins.pop(self.real(path), None)

    def changes(self) -> Iterator[Change]:
        for real, path in self.names.items():
            if self.before[real] != self.content[real]:
                yield Change(
                    path, real, self.before[real], self.content[real], self.origins.get(real)
                )

    def _hint(self, path: str) -> str:
        if not path.startswith("/"):
            with suppress(ToolError):
                if self.read(f"/{path}") is not None:
                    return f"; {shown('/' + path)} does"
        return ""


def _update(files: _Files, update: Update) -> None:
    before = files.existing(update.path)
    after = before
    if update.hunks:
        after = _patched(files, update.path, before, update.hunks)
    if update.move_to is not None:
        files.move(update.path, update.move_to, after)
    elif after == before:
        raise ToolError(f"the patch does not change {shown(update.path)}: it adds what it removes")
    else:
        files.content[files.real(update.path)] = after


def _check_whole(files: _Files, path: str, hunks: Sequence[Hunk]) -> None:
    """Raise a ToolError if hunks of a deletion leave out lines, which would be lost unseen."""
    content = files.existing(path)
    if not hunks:
        return
    left = content
    if hunks[0].lines:
        left = _patched(files, path, content, hunks)
    if left:
        raise ToolError(
            f"the patch deletes {shown(path)} but shows only some of its lines; remove all of them"
        )


def _patched(files: _Files, path: str, content: bytes, hunks: Sequence[Hunk]) -> bytes:
    source = PatchSource.of(path, content)
    secret = any(is_secret(name) for name in f"{path}/{files.real(path)}".split("/"))
    target = Target(source.texts, quiet=secret)
    ending = source.lines[0].ending if source.lines else "\n"
    lines: list[SourceLine] = []
    final_newline = source.final_newline
    taken = 0
    for number, hunk in enumerate(hunks, 1):
        name = f"hunk {number} of {shown(path)} (line {hunk.where} of the patch)"
        spot = target.place(hunk, name)
        lines += source.lines[taken : spot.index]
        lines += _replaced(source, hunk, spot, lines[-1].ending if lines else ending, name)
        taken = spot.index + len(hunk.old)
        if hunk.final_newline is not None:
            final_newline = hunk.final_newline
    return replace(
        source, lines=(*lines, *source.lines[taken:]), final_newline=final_newline
    ).encode()


def _replaced(
    source: PatchSource, hunk: Hunk, spot: Spot, ending: str, name: str
) -> Iterator[SourceLine]:
    """Yield the new lines at a hunk: kept lines as in the file, new ones with its line endings."""
    there = source.lines[spot.index : spot.index + len(hunk.old)]
    pairs = zip(hunk.old, (line.text for line in there), strict=True)
    # Without pairs, the conversion leaves every indentation as it is.
    way = reindent(pairs if spot.form is Form.STRIPPED else ())
    old = iter(there)
    gone: list[tuple[str, str]] = []
    for line in hunk.lines:
        if line.sign == "+":
            text = way.line(line.text) if way else in_place_of(gone, line.text)
            if text is None:
                where = f"lines {spot.index + 1} to {spot.index + len(there)} of the file"
                raise ToolError(
                    f"{name} only matches with other indentation; indent it like {where}"
                )
            yield SourceLine(text, ending)
        else:
            found = next(old)
            ending = found.ending
            gone.append((line.text, found.text))
            if line.sign == " ":
                gone.clear()
                yield found


class Reindent(Struct, frozen=True):
    """A conversion from the indentation of a hunk to that of its file."""

    shift: Shift

    def line(self, text: str) -> str | None:
        """Return a line with converted indentation, or None if that is not possible."""
        if not text.strip():
            return text
        indent = _indent(text)
        shifted = self.shift(indent)
        if shifted is None:
            return None
        return shifted + text.removeprefix(indent)


def reindent(pairs: Iterable[tuple[str, str]]) -> Reindent | None:
    """Return the one conversion that fits all pairs of hunk and file lines, or None."""
    known = {(_indent(hunk), _indent(file)) for hunk, file in pairs if hunk.strip()}
    for shift in _shifts(known):
        if all(shift(hunk) == file for hunk, file in known):
            return Reindent(shift)
    return None


def in_place_of(gone: Iterable[tuple[str, str]], text: str) -> str | None:
    """Return a line indented like the removed line with the same indentation, or None."""
    if not text.strip():
        return text
    indent = _indent(text)
    meant = {_indent(file) for hunk, file in gone if hunk.strip() and _indent(hunk) == indent}
    if len(meant) == 1:
        return meant.pop() + text.removeprefix(indent)
    return None


def _shifts(known: set[tuple[str, str]]) -> Iterator[Shift]:
    hunk, file = min(known, key=lambda pair: (len(pair[0]), len(pair[1])), default=("", ""))
    added = file.removesuffix(hunk)
    removed = hunk.removesuffix(file)
    if file.endswith(hunk):
        yield lambda indent: added + indent
    if hunk.endswith(file):
        yield lambda indent: indent.removeprefix(removed) if indent.startswith(removed) else None
    for width in _TAB_WIDTHS:
        yield partial(_with_tabs, width)
        yield partial(str.expandtabs, tabsize=width)


def _with_tabs(width: int, indent: str) -> str | None:
    tabs, rest = divmod(len(indent), width)
    if indent.strip(" "):
        return None
    return "\t" * tabs + " " * rest


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def file_reader(sandbox: FileOperations) -> Callable[[str], bytes | None]:
    """Return a reader for ``plan_patch``."""

    def read(path: str) -> bytes | None:
        if sandbox.exists(path):
            return sandbox.read_bytes(path)
        return None

    return read


def patch_stamp(changes: Sequence[Change]) -> str:
    """Return a hash that is equal for plans with the same files, old and new contents."""
    digest = sha256()
    for change in changes:
        for part in (change.real.encode(), change.before, change.after):
            # The length keeps parts apart, so that no other split gives the same hash.
            digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return digest.hexdigest()


def apply_plan(changes: Sequence[Change], sandbox: FileOperations) -> None:
    """Write and delete files as planned; after an error, all files are as before.

    Raise Stale if a file has changed since the plan.
    """
    read = file_reader(sandbox)
    for change in changes:
        _check(change, read, sandbox)
    attributes: dict[str, os.stat_result | None] = {}
    for change in changes:
        for path in filter(None, (change.real, change.origin)):
            attributes[path] = sandbox.attributes(path)
    done: list[Change] = []
    folders: list[str] = []
    try:
        # Write before deleting, so that a full disk loses nothing.
        for change in sorted(changes, key=lambda change: change.after is None):
            if change.after is not None:
                folders += _missing_folders(change.real, sandbox)
            _carry_out(change, attributes, sandbox)
            done.append(change)
    except BaseException as error:
        lost = _undo(done, folders, attributes, worker_sandbox(sandbox))
        if not isinstance(error, ToolError | OSError):
            raise
        # A stale plan can be made again, unless files could not be restored.
        kind = Stale if isinstance(error, Stale) and not lost else ToolError
        raise kind(f"{error}; {_state(lost)}") from error


def _check(change: Change, read: Callable[[str], bytes | None], sandbox: FileOperations) -> None:
    if sandbox.resolve(change.path) != change.real or read(change.path) != change.before:
        raise Stale(f"{shown(change.path)} has changed since the patch was planned")
    if change.after is None and sandbox.stat(change.path, follow=False).kind == "link":
        raise ToolError(
            f"{shown(change.path)} is a link, which a patch cannot delete or move; name its target"
        )


def _missing_folders(real: str, sandbox: FileOperations) -> list[str]:
    names = real.split("/")
    # The first two are the empty text before the slash and the zone, which exists.
    above = ["/".join(names[:count]) for count in range(3, len(names))]
    return [folder for folder in above if not sandbox.exists(folder)]


def _carry_out(change: Change, attributes: Attributes, sandbox: FileOperations) -> None:
    if change.after is None:
        sandbox.delete(change.path, expected=change.real)
    else:
        like = attributes[change.origin] if change.origin else None
        sandbox.write_bytes(change.path, change.after, expected=change.real, like=like)


def _undo(
    done: Sequence[Change], folders: Sequence[str], attributes: Attributes, sandbox: FileOperations
) -> list[str]:
    """Restore the old contents; return the files for which that failed."""
    lost = []
    for change in reversed(done):
        try:
            if change.before is None:
                sandbox.delete(change.real, expected=change.real)
            else:
                sandbox.write_bytes(
                    change.real, change.before, expected=change.real, like=attributes[change.real]
                )
        except (ToolError, OSError):
            lost.append(change.path)
    # Inner folders come first, since only an empty folder can be deleted.
    for folder in sorted(folders, reverse=True):
        with suppress(ToolError, OSError):
            sandbox.delete(folder)
    return lost


def _state(lost: Sequence[str]) -> str:
    if not lost:
        return "nothing was changed"
    return f"these files could not be restored: {', '.join(map(shown, lost))}"
