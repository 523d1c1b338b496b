"""A text file as lines that remember how they ended."""

from __future__ import annotations

import re
from dataclasses import dataclass

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.names import shown

_BOM = "\ufeff"
_LINE = re.compile(r"([^\n]*?)(\r?\n)")


def decode(path: str, data: bytes, purpose: str) -> str:
    """The text of a file, or a refusal that says why it cannot be ``patched``."""
    if b"\0" in data:
        raise ToolError(f"{shown(path)} is a binary file of {len(data)} bytes, which cannot be {purpose}")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{shown(path)} is not UTF-8 text ({len(data)} bytes), so it cannot be {purpose}") from None


@dataclass(frozen=True)
class SourceLine:
    text: str
    ending: str


@dataclass(frozen=True)
class PatchSource:
    """Every line has an ending here; ``final_newline`` says whether the last one has it in the file."""

    lines: tuple[SourceLine, ...]
    final_newline: bool = True
    mark: str = ""

    @classmethod
    def of(cls, path: str, data: bytes) -> PatchSource:
        text = decode(path, data, "patched")
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
