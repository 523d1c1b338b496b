"""Here-documents as the generous scan passes over them: data, unless they expand or a shell reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forge_cli.toolsets.shell.block.frames import Scanned

_DELIMITER = re.compile(r"[ \t]*((?:[^ \t\n;&|()<>\"'\\`$]|\\[^\n]|'[^'\n]*'|\"[^\"\n]*\")+)(?![$`\\\"'])")
_LINE_MAX = 256
"""A line that is longer is not the end of a here-document that anybody means."""
_QUOTING = re.compile(r"\\(.)|['\"]")


@dataclass(frozen=True)
class _Heredoc:
    delimiter: str
    expands: bool
    tabs: bool
    depth: int


class Heredocs:
    """Those that a line has announced and whose bodies follow it."""

    def __init__(self, text: str, result: Scanned) -> None:
        self._text = text
        self._result = result
        self._pending: list[_Heredoc] = []

    def __bool__(self) -> bool:
        return bool(self._pending)

    def announce(self, pos: int, *, tabs: bool, depth: int) -> int:
        """Read the delimiter after ``<<``; the place to continue."""
        found = _DELIMITER.match(self._text, pos)
        if found is None:
            self._result.doubt = True
            return pos
        bare = _QUOTING.sub(r"\1", found[1])
        self._pending.append(_Heredoc(bare, bare == found[1], tabs, depth))
        return found.end()

    def skip(self, pos: int, depth: int) -> int:
        """Pass over the bodies that start at ``pos``; where the next line of commands starts."""
        for heredoc in self._pending:
            if heredoc.depth != depth:
                self._result.doubt = True
            pos = self._skip(heredoc, pos)
        self._pending.clear()
        return pos

    def _skip(self, heredoc: _Heredoc, start: int) -> int:
        pos, before = start, ""
        while pos < len(self._text):
            end = self._text.find("\n", pos)
            end = len(self._text) if end < 0 else end
            line = before + self._text[pos:end]
            if heredoc.expands and line.endswith("\\") and len(line) < _LINE_MAX and not line.endswith("\\\\"):
                pos, before = end + 1, line[:-1]
                continue
            before = ""
            if (line.lstrip("\t") if heredoc.tabs else line) == heredoc.delimiter:
                self._keep(self._text[start:pos], heredoc.expands)
                return min(end + 1, len(self._text))
            pos = end + 1
        self._result.doubt = True
        self._keep(self._text[start:], heredoc.expands)
        return len(self._text)

    def _keep(self, body: str, expands: bool) -> None:
        self._result.data.append(body)
        if expands:
            self._result.bodies.append(body)
            self._result.doubt = self._result.doubt or "\\\n" in body
