"""Hunks of a changed file, each of which can be taken on its own."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterator, Sequence
from io import StringIO

from msgspec import Struct

from forge_cli.files.difference import unified_diff

Opcode = tuple[str, int, int, int, int]


class FileHunks(Struct, frozen=True):
    """The differences between two contents of a file, split into hunks."""

    before: Sequence[str]
    after: Sequence[str]
    opcodes: Sequence[tuple[Opcode, int | None]]
    """Each step from one content to the other, with the number of its hunk if it has one."""
    shown: Sequence[Sequence[str]]
    """Each hunk as lines of a unified diff."""

    @classmethod
    def of(cls, before: bytes, after: bytes) -> FileHunks:
        """Compare two contents; only a newline ends a line."""
        # Bytes that are not UTF-8 become surrogates, so that encoding returns the same bytes.
        old_text = before.decode(errors="surrogateescape")
        new_text = after.decode(errors="surrogateescape")
        old = list(StringIO(old_text, newline="\n"))
        new = list(StringIO(new_text, newline="\n"))
        matcher = difflib.SequenceMatcher(None, old, new)
        steps = list(matcher.get_opcodes())  # a copy, because grouping cuts the first and the last
        numbers: dict[Opcode, int] = {}
        for number, group in enumerate(matcher.get_grouped_opcodes()):
            numbers.update({step: number for step in group if step[0] != "equal"})
        opcodes = [(step, numbers.get(step)) for step in steps]
        shown = list(_hunks_of(unified_diff(old_text, new_text, "", "")))
        if len(shown) != len(set(numbers.values())):
            # A very long difference is one hunk, and is taken or left as a whole.
            opcodes = [(step, None if step[0] == "equal" else 0) for step in steps]
            shown = [[line for hunk in shown for line in hunk]]
        return cls(old, new, opcodes, shown)

    def taken(self, numbers: Container[int]) -> bytes:
        """Return the earlier content with these hunks."""
        lines: list[str] = []
        for (_, old_start, old_end, new_start, new_end), number in self.opcodes:
            if number is not None and number in numbers:
                lines += self.after[new_start:new_end]
            else:
                lines += self.before[old_start:old_end]
        return "".join(lines).encode(errors="surrogateescape")


def _hunks_of(difference: Sequence[str]) -> Iterator[list[str]]:
    """Split a unified diff, without its first two lines, before each ``@@``."""
    hunk: list[str] = []
    for line in difference[2:]:
        if line.startswith("@@") and hunk:
            yield hunk
            hunk = []
        hunk.append(line)
    if hunk:
        yield hunk
