"""Replacing an exact text in a file: the one place that has it, or a refusal that says what is there instead."""

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
    """A file before and after, and the lines where the replaced texts began, counted from 1."""

    before: str
    after: str
    lines: tuple[int, ...]


def replace_text(
    path: str, data: bytes, old: str, new: str, *, everywhere: bool = False, quiet: bool = False
) -> Replaced:
    """The file with ``new`` in the place of ``old``; a newline in them stands for the ending that the file has there.

    ``quiet`` is for a file that may hold secrets: a refusal repeats none of its lines.
    """
    text = decode_patchable(path, data, "edited")
    old, new = _plain(old), _plain(new)
    if not old:
        raise ToolError(
            "old is empty; give the text to replace, or write the whole file with write_file"
        )
    if old == new:
        raise ToolError("old and new are the same text, so nothing would change")
    found = list(_occurrences(text, old, new))
    lines = tuple(_line_numbers(text, found))
    if not found:
        raise ToolError(f"old is not in {shown(path)}{_misfit(text, old, quiet)}")
    if len(found) > 1 and not everywhere:
        places = list_lines([line - 1 for line in lines])
        raise ToolError(
            f"old is in {shown(path)} {len(found)} times, at {places}; "
            "add lines around it to old and new, or set all to replace each"
        )
    return Replaced(text, "".join(_pieces(text, found, _changed(old, new)[2])), lines)


def _plain(text: str) -> str:
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ToolError("half of a surrogate pair cannot be in a file; leave it out")
    return text.replace("\r\n", "\n")


def _changed(old: str, new: str) -> tuple[str, str, str, str]:
    """The common beginning of both texts, the difference in the old and in the new one, and the common end."""
    head = _same_length(old, new)
    tail = _same_length(old[head:][::-1], new[head:][::-1])
    return (
        old[:head],
        old[head : len(old) - tail],
        new[head : len(new) - tail],
        old[len(old) - tail :],
    )


def _same_length(one: str, other: str) -> int:
    differ = (at for at, (char, also) in enumerate(zip(one, other, strict=False)) if char != also)
    return next(differ, min(len(one), len(other)))


def _occurrences(text: str, old: str, new: str) -> Iterator[re.Match[str]]:
    """All of them, overlapping ones too; each has what stays before, what goes, and what stays behind it."""
    head, gone, _, tail = _changed(old, new)
    parts = (re.escape(part).replace("\\\n", "\r?\n") for part in (head, gone, tail))
    pattern = re.compile("".join(f"({part})" for part in parts))
    at = 0
    while match := pattern.search(text, at):
        yield match
        at = match.start() + 1


def _line_numbers(text: str, found: Sequence[re.Match[str]]) -> Iterator[int]:
    line, seen = 1, 0
    for match in found:
        line += text.count("\n", seen, match.start())
        seen = match.start()
        yield line


def _pieces(text: str, found: Sequence[re.Match[str]], new: str) -> Iterator[str]:
    """The text with the new one at each occurrence; one that overlaps the one before is gone already."""
    taken = 0
    for match in found:
        if match.start() >= taken:
            yield text[taken : match.start(2)]
            yield new.replace("\n", _ending(text, match))
            yield match[3]
            taken = match.end()
    yield text[taken:]


def _ending(text: str, match: re.Match[str]) -> str:
    """How lines end there: in the occurrence, behind it, or anywhere in the file."""
    found = _ENDING.search(match[0]) or _ENDING.search(text, match.end()) or _ENDING.search(text)
    return found[0] if found else "\n"


def _misfit(text: str, old: str, quiet: bool) -> str:
    """The problem of a text that is not in the file, as the rest of a sentence."""
    plain = text.replace("\r\n", "\n")
    if (bare := _NUMBERED.sub("", old)) != old and bare in plain:
        return " with the numbers that read_file puts before each line; leave them out"
    if (bare := old.strip("\n")) and bare in plain:
        return " with the newlines around it; leave those out at the beginning and the end"
    if quiet:
        return "; read the file and copy the text exactly"
    lines = describe_nearest(
        plain.split("\n"), old.strip("\n").split("\n"), name="old", alike=alike_exactly
    )
    return (
        f".{lines}" if lines else ", nor anything like it; read the file and copy the text exactly"
    )
