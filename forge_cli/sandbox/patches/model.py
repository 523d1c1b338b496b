"""Values of a patch: lines of its text and of files, operations, hunks, and planned changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.core.text import visible
from forge_cli.core.zones import Access
from forge_cli.files.difference import recap_differences, unified_diff
from forge_cli.sandbox.names import shown

_BOM = "\ufeff"
_LINE = re.compile(r"([^\n]*?)(\r?\n)")
EMPTY = ("", "\r")
SIGNS = (" ", "-", "+")
_FENCE = "```"
Sign = Literal[" ", "-", "+"]


class HunkLine(Struct, frozen=True):
    """One line of a hunk, without its line ending."""

    sign: Sign
    text: str


class Hunk(Struct, frozen=True):
    """One place in a file: the lines that must be there, and their replacement."""

    where: int
    """The line number in the patch."""
    lines: tuple[HunkLine, ...]
    anchors: tuple[str, ...] = ()
    """Lines of the file above the hunk, the outermost first."""
    start: int | None = None
    """The stated line number in the file, counted from 1."""
    at_end: bool = False
    """True if the hunk states that it has the last lines of the file."""
    final_newline: bool | None = None
    """Whether the new file ends with a newline; None if the patch does not say."""

    @property
    def old(self) -> tuple[str, ...]:
        return tuple(line.text for line in self.lines if line.sign != "+")

    @property
    def new(self) -> tuple[str, ...]:
        return tuple(line.text for line in self.lines if line.sign != "-")


class Add(Struct, frozen=True):
    """A new file, which must not exist yet."""

    path: str
    content: str


class Update(Struct, frozen=True):
    """An existing file to change; with ``move_to``, it is also renamed."""

    path: str
    hunks: tuple[Hunk, ...]
    move_to: str | None = None


class Delete(Struct, frozen=True):
    """A file to delete; if it has hunks, they must contain the whole file."""

    path: str
    hunks: tuple[Hunk, ...] = ()


Operation = Add | Update | Delete


class Patch(Struct, frozen=True):
    """The operations of a patch, in its order."""

    operations: tuple[Operation, ...]


class Change(Struct, frozen=True):
    """The planned change of one file; a content is None if the file does not exist."""

    path: str
    """The path as the patch spells it."""
    real: str
    """The virtual path of the file when the change was planned."""
    before: bytes | None
    after: bytes | None
    origin: str | None = None
    """The virtual path of the file that was moved here; its mode is kept."""

    @property
    def access(self) -> Access:
        if self.after is None:
            return Access.DELETE
        return Access.WRITE

    @property
    def kind(self) -> str:
        if self.before is None:
            return "created"
        if self.after is None:
            return "deleted"
        return "changed"

    def unified(self) -> str:
        """Return the difference between the old and the new content."""
        lines = self.difference or [f"{visible(self.path)}: empty file {self.kind}"]
        return "".join(f"{line}\n" for line in lines)

    @property
    def difference(self) -> Sequence[str]:
        """A unified diff; empty if the file is empty before and after."""
        return _compare(self.path, self.before, self.after)


# A change is shown, counted and summarized in turn, and comparing large files takes long.
@lru_cache(maxsize=16)
def _compare(path: str, before: bytes | None, after: bytes | None) -> Sequence[str]:
    old = (before or b"").decode(errors="surrogateescape")
    new = (after or b"").decode(errors="surrogateescape")
    old_name = "/dev/null" if before is None else path
    new_name = "/dev/null" if after is None else path
    return tuple(unified_diff(old, new, old_name, new_name))


def recap_changes(changes: Sequence[Change]) -> str:
    """Summarize the changes, like ``2 files, +14 -3``."""
    return recap_differences([change.difference for change in changes])


def patch_accesses(patch: Patch) -> list[tuple[str, Access]]:
    """Return every path with its access; a move writes the target and deletes the source."""
    found: list[tuple[str, Access]] = []
    for operation in patch.operations:
        match operation:
            case Update(path=path, move_to=str() as target):
                found += [(path, Access.DELETE), (target, Access.WRITE)]
            case Add(path=path) | Update(path=path):
                found.append((path, Access.WRITE))
            case Delete(path=path):
                found.append((path, Access.DELETE))
    return list(dict.fromkeys(found))


class Lines:
    """A reader of lines; ``number`` counts from 1, and lines after the end are None."""

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        # Returns on all lines say nothing about the file, which decides about its line endings.
        if all(line.endswith("\r") for line in lines if line):
            lines = [line.removesuffix("\r") for line in lines]
        filled = [index for index, line in enumerate(lines) if line.strip()]
        self._lines = lines
        self._next = filled[0] if filled else len(lines)
        # A model may put the whole patch into a code block.
        is_fenced = len(filled) > 1 and lines[filled[0]].startswith(_FENCE)
        if is_fenced and lines[filled[-1]].rstrip() == _FENCE:
            self._lines = lines[: filled[-1]]
            self._next = filled[1]

    @property
    def number(self) -> int:
        return self._next + 1

    @property
    def current(self) -> str | None:
        if self._next < len(self._lines):
            return self._lines[self._next]
        return None

    @property
    def following(self) -> str | None:
        if self._next + 1 < len(self._lines):
            return self._lines[self._next + 1]
        return None

    def take(self) -> str:
        self._next += 1
        return self._lines[self._next - 1]

    def skip_empty(self) -> None:
        while self.current in EMPTY:
            self.take()


def patch_error(number: int, what: str) -> ToolError:
    """Return an error that names a line of the patch."""
    return ToolError(f"line {number} of the patch: {what}")


def without_returns(lines: tuple[HunkLine, ...], number: int) -> tuple[HunkLine, ...]:
    """Return the lines without carriage returns, since the file decides about its line endings."""
    returns = sum(line.text.endswith("\r") for line in lines)
    if returns in (0, len(lines)):
        return tuple(HunkLine(line.sign, line.text.removesuffix("\r")) for line in lines)
    raise patch_error(number, "the hunk mixes LF and CRLF lines; line endings cannot be patched")


def decode_patchable(path: str, data: bytes, purpose: str) -> str:
    """Return the text of a file; raise a ToolError if it is no text, naming the ``purpose``."""
    if b"\0" in data:
        raise ToolError(
            f"{shown(path)} is a binary file of {len(data)} bytes, which cannot be {purpose}"
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolError(
            f"{shown(path)} is not UTF-8 text ({len(data)} bytes), so it cannot be {purpose}"
        ) from None


class SourceLine(Struct, frozen=True):
    """A line of a file with its line ending."""

    text: str
    ending: str


class PatchSource(Struct, frozen=True):
    """A file as lines that all have an ending.

    ``final_newline`` tells if the last one really has it.
    """

    lines: tuple[SourceLine, ...]
    final_newline: bool = True
    mark: str = ""

    @classmethod
    def of(cls, path: str, data: bytes) -> PatchSource:
        text = decode_patchable(path, data, "patched")
        mark = _BOM if text.startswith(_BOM) else ""
        text = text.removeprefix(_BOM)
        lines = [SourceLine(found[1], found[2]) for found in _LINE.finditer(text)]
        if rest := text[text.rfind("\n") + 1 :]:
            lines.append(SourceLine(rest, lines[-1].ending if lines else "\n"))
        return cls(tuple(lines), final_newline=not rest, mark=mark)

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines]

    def encode(self) -> bytes:
        text = "".join(line.text + line.ending for line in self.lines)
        if self.lines and not self.final_newline:
            text = text.removesuffix(self.lines[-1].ending)
        return (self.mark + text).encode()
