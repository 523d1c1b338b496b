"""The grammar of unified diffs, as ``diff -u`` and ``git diff`` write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.errors import ToolError
from forge_cli.core.zones import Zone
from forge_cli.sandbox.files.virtual import HOME
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.patches.model import (
    EMPTY,
    SIGNS,
    Add,
    Delete,
    Hunk,
    HunkLine,
    Lines,
    Operation,
    Sign,
    Update,
    patch_error,
    without_returns,
)

HEADER = re.compile(
    r"@@ -(?P<old>\d+)(?:,(?P<old_count>\d+))? \+(?P<new>\d+)(?:,(?P<new_count>\d+))? @@"
)
# ``git format-patch`` ends a mail with this line and the version of git.
_SIGNATURE = ("-- ", "--")
_STARTS = ("--- ", "diff --git ", "Index: ")
_NULL = "/dev/null"
_IGNORED = (
    "index ",
    "====",
    "similarity index ",
    "dissimilarity index ",
    "new file mode 100644",
    "deleted file mode ",
    "rename from ",
    "rename to ",
)
_ONLY_GIT = (
    "use '*** Begin Patch' for files without changed lines; modes and binary files do not work"
)
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_ESCAPED = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')


def is_header(line: str) -> bool:
    """Return True for the first line of a file in a diff."""
    return line.startswith(_STARTS)


def parse(lines: Lines, zones: Sequence[Zone]) -> Iterator[Operation]:
    """Yield the operations of a unified diff."""
    while True:
        lines.skip_empty()
        line = lines.current
        if line is None or line in _SIGNATURE:
            return
        if not is_header(line):
            raise patch_error(lines.number, f"expected '--- PATH', '@@' or the end, not {line!r}")
        number = lines.number
        names = read_names(lines, zones)
        yield _operation(names, tuple(_hunks(lines)), number)


def _operation(names: Names, hunks: tuple[Hunk, ...], number: int) -> Operation:
    if names.old is None:
        # Only one of the two names can be missing.
        return Add(cast(str, names.new), _content(hunks))
    hunks = tuple(replace(hunk, lines=without_returns(hunk.lines, hunk.where)) for hunk in hunks)
    if names.new is None:
        return Delete(names.old, hunks or (Hunk(number, ()),))
    target = names.new if names.new != names.old else None
    if not hunks and target is None:
        raise patch_error(
            number,
            f"{shown(names.old)} has no hunk; write '@@ -LINE,COUNT +LINE,COUNT @@'",
        )
    return Update(names.old, hunks, target)


def _content(hunks: tuple[Hunk, ...]) -> str:
    """Return the content of a new file, which has at most one hunk that only adds lines."""
    if not hunks:
        return ""
    if len(hunks) > 1 or hunks[0].old:
        raise patch_error(
            hunks[-1].where, "a new file has one hunk, in which every line begins with '+'"
        )
    text = "".join(f"{line}\n" for line in hunks[0].new)
    if hunks[0].final_newline is False:
        return text.removesuffix("\n")
    return text


def _hunks(lines: Lines) -> Iterator[Hunk]:
    while True:
        lines.skip_empty()
        line = lines.current
        if line is None or not line.startswith("@@"):
            return
        number = lines.number
        header = HEADER.match(lines.take())
        if header:
            # A header may leave out a count of one.
            body = _counted(
                lines, number, int(header["old_count"] or 1), int(header["new_count"] or 1)
            )
            yield body.hunk(number, start=int(header["old"]))
        elif line.strip("@ \r"):
            raise patch_error(
                number, f"expected '@@ -LINE,COUNT +LINE,COUNT @@' or '@@' alone, not {line!r}"
            )
        else:
            yield _uncounted(lines).hunk(number, start=None)


@dataclass
class _Body:
    """The lines of a hunk while they are read."""

    lines: list[HunkLine] = field(default_factory=list)
    old: int = 0
    new: int = 0
    unfinished: set[Sign] = field(default_factory=set)
    """The signs of lines after which the file ends without a newline."""

    def add(self, text: str) -> None:
        if text in EMPTY:
            # Mailers remove the space at the end of an empty line of context.
            line = HunkLine(" ", text)
        else:
            line = HunkLine(cast(Sign, text[0]), text[1:])
        self.lines.append(line)
        self.old += line.sign != "+"
        self.new += line.sign != "-"

    def end_here(self, number: int) -> None:
        if not self.lines:
            raise patch_error(number, "no line above that could lack its newline")
        self.unfinished.add(self.lines[-1].sign)

    def hunk(self, number: int, start: int | None) -> Hunk:
        if all(line.sign == " " for line in self.lines):
            raise patch_error(number, "the hunk changes nothing; mark lines with '-' or '+'")
        if not self.unfinished:
            return Hunk(number, tuple(self.lines), start=start)
        final_newline = not self.unfinished & {" ", "+"}
        return Hunk(
            number, tuple(self.lines), start=start, at_end=True, final_newline=final_newline
        )


def _counted(lines: Lines, number: int, old: int, new: int) -> _Body:
    """Read as many lines as the header states.

    Fewer lines mean that the patch was cut off, and more would be ignored.
    """
    body = _Body()
    while (line := lines.current) is not None:
        if line.startswith("\\"):
            body.end_here(lines.number)
        elif (body.old, body.new) == (old, new) or not (line in EMPTY or line.startswith(SIGNS)):
            break
        else:
            body.add(line)
        lines.take()
    while (
        (line := lines.current)
        and line.startswith(SIGNS)
        and line not in _SIGNATURE
        and not _is_next_file(lines)
    ):
        body.add(lines.take())
    if (body.old, body.new) != (old, new):
        said = f"{old} old and {new} new lines"
        found = f"{body.old} and {body.new}"
        problem = f"the hunk states {said}, but has {found}; correct it, or write '@@' alone"
        raise patch_error(number, problem)
    return body


def _uncounted(lines: Lines) -> _Body:
    body = _Body()
    empty: list[str] = []
    while (line := lines.current) is not None and not _is_next_file(lines):
        if line.startswith("\\"):
            body.end_here(lines.number)
        elif line in EMPTY:
            empty.append(line)
        elif line.startswith(SIGNS):
            for text in (*empty, line):
                body.add(text)
            empty.clear()
        else:
            break
        lines.take()
    return body


def _is_next_file(lines: Lines) -> bool:
    line = lines.current or ""
    following = lines.following or ""
    return line.startswith("--- ") and following.startswith("+++ ")


class Names(Struct, frozen=True):
    """The paths before and after; None if there is no file."""

    old: str | None
    new: str | None


def read_names(lines: Lines, zones: Sequence[Zone]) -> Names:
    """Read the headers of one file up to its first hunk; the paths follow ``---`` and ``+++``."""
    number = lines.number
    while (line := lines.current) is not None and not line.startswith("--- "):
        if line not in EMPTY and not line.startswith(
            _IGNORED if lines.number > number else _STARTS
        ):
            raise patch_error(lines.number, f"expected '--- PATH', not {line!r}; {_ONLY_GIT}")
        lines.take()
    if line is None:
        raise patch_error(
            number, f"the header has no file; write '--- PATH', then '+++ PATH' ({_ONLY_GIT})"
        )
    return _pair(lines, zones)


def _pair(lines: Lines, zones: Sequence[Zone]) -> Names:
    number = lines.number
    old = _path(lines.take().removeprefix("--- "))
    if not (lines.current or "").startswith("+++ "):
        raise patch_error(lines.number, "expected '+++ PATH' below '--- PATH'")
    new = _path(lines.take().removeprefix("+++ "))
    if not old or not new or old == new == _NULL:
        raise patch_error(number, "the header has no file; write '--- PATH', then '+++ PATH'")
    if old.startswith("a/") and new.startswith("b/"):
        return Names(_rooted(old[2:], zones), _rooted(new[2:], zones))
    if old == _NULL:
        return Names(None, _rooted(new[2:], zones) if new.startswith("b/") else new)
    if new == _NULL:
        return Names(_rooted(old[2:], zones) if old.startswith("a/") else old, None)
    if old != new:
        remedy = "to move a file, use '*** Move to:' in '*** Begin Patch'"
        problem = (
            f"{shown(old)} and {shown(new)} are two files; name one in both lines, or {remedy}"
        )
        raise patch_error(number, problem)
    return Names(old, new)


def _path(text: str) -> str:
    """Return the name in a header, without the time after a tab and without quotes."""
    text = text.split("\t", 1)[0].rstrip()
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    raw = _ESCAPED.sub(_unescape, text[1:-1].encode())
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ToolError(f"the name {shown(text)} in the patch is not UTF-8 text") from None


def _unescape(found: re.Match[bytes]) -> bytes:
    code = found[1].decode()
    # Three octal digits can exceed a byte.
    return bytes([_ESCAPES[code] if code in _ESCAPES else int(code, 8) & 0xFF])


def _rooted(name: str, zones: Sequence[Zone]) -> str:
    """Return a name without its ``a/``, which stands for the leading slash of virtual paths."""
    first = name.split("/", 1)[0]
    declared = not any(zone.default for zone in zones) and any(zone.name == first for zone in zones)
    if declared:
        return f"/{name}"
    return f"./{name}" if first == HOME else name
