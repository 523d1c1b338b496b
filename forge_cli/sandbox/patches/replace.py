"""Replacing an exact text in a file that has it once, or an error that shows the nearest text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.patches.match import alike_exactly, describe_nearest, list_lines
from forge_cli.sandbox.patches.model import decode_patchable

_NUMBERED = re.compile(r"^ *\d+(?:: ?|\t)", re.MULTILINE)
_ENDING = re.compile(r"\r?\n")


class Replaced(Struct, frozen=True):
    """A file before and after, and the lines where replaced texts began, counted from 1."""

    before: str
    after: str
    lines: tuple[int, ...]


def replace_text(
    path: str, data: bytes, old: str, new: str, *, everywhere: bool = False, quiet: bool = False
) -> Replaced:
    """Return the file with ``old`` replaced by ``new``.

    A newline in either stands for the line ending of the file. ``quiet`` is for files that may
    contain secrets: errors repeat none of their lines.
    """
    text = decode_patchable(path, data, "edited")
    old = _plain(old)
    new = _plain(new)
    if not old:
        raise ToolError(
            "old is empty; give the text to replace, or write the whole file with write_file"
        )
    if old == new:
        raise ToolError("old and new are the same text")
    found = list(_occurrences(text, old, new))
    lines = tuple(_line_numbers(text, found))
    if not found:
        raise ToolError(f"old is not in {shown(path)}{_misfit(text, old, quiet)}")
    if len(found) > 1 and not everywhere:
        places = list_lines([line - 1 for line in lines])
        raise ToolError(
            f"old is in {shown(path)} {len(found)} times, at {places}; "
            "add surrounding lines to old and new, or set all to replace every one"
        )
    return Replaced(text, "".join(_pieces(text, found, _changed(old, new)[2])), lines)


def _plain(text: str) -> str:
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ToolError("the text contains half of a surrogate pair; remove it")
    return text.replace("\r\n", "\n")


def _changed(old: str, new: str) -> tuple[str, str, str, str]:
    """Return the common beginning, the old and new parts that differ, and the common end."""
    head = _same_length(old, new)
    tail = _same_length(old[head:][::-1], new[head:][::-1])
    return (
        old[:head],
        old[head : len(old) - tail],
        new[head : len(new) - tail],
        old[len(old) - tail :],
    )


def _same_length(one: str, other: str) -> int:
    for at, (char, also) in enumerate(zip(one, other, strict=False)):
        if char != also:
            return at
    return min(len(one), len(other))


def _occurrences(text: str, old: str, new: str) -> Iterator[re.Match[str]]:
    """Yield all occurrences, even overlapping, with groups for kept, replaced and kept text."""
    head, gone, _, tail = _changed(old, new)
    # ``re.escape`` puts a backslash before a newline.
    parts = (re.escape(part).replace("\\\n", "\r?\n") for part in (head, gone, tail))
    pattern = re.compile("".join(f"({part})" for part in parts))
    at = 0
    while match := pattern.search(text, at):
        yield match
        at = match.start() + 1


def _line_numbers(text: str, found: Sequence[re.Match[str]]) -> Iterator[int]:
    line = 1
    seen = 0
    for match in found:
        line += text.count("\n", seen, match.start())
        seen = match.start()
        yield line


def _pieces(text: str, found: Sequence[re.Match[str]], new: str) -> Iterator[str]:
    """Yield the text with each occurrence replaced, except those that overlap a replaced one."""
    taken = 0
    for match in found:
        if match.start() >= taken:
            yield text[taken : match.start(2)]
            yield new.replace("\n", _ending(text, match))
            yield match[3]
            taken = match.end()
    yield text[taken:]


def _ending(text: str, match: re.Match[str]) -> str:
    """Return the line ending used in the occurrence, after it, or anywhere in the file."""
    found = _ENDING.search(match[0]) or _ENDING.search(text, match.end()) or _ENDING.search(text)
    return found[0] if found else "\n"


def _misfit(text: str, old: str, quiet: bool) -> str:
    """Return why a text is not in the file, as the rest of an error."""
    plain = text.replace("\r\n", "\n")
    if (bare := _NUMBERED.sub("", old)) != old and bare in plain:
        return " with the line numbers that read_file adds; remove them"
    if (bare := old.strip("\n")) and bare in plain:
        return " with the newlines around it; remove them"
    if quiet:
        return "; read the file and copy the text exactly"
    lines = describe_nearest(
        plain.split("\n"), old.strip("\n").split("\n"), name="old", alike=alike_exactly
    )
    if not lines:
        return ", nor anything similar; read the file and copy the text exactly"
    return f".{lines}"
