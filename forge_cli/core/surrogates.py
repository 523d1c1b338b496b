"""Text that UTF-8 can carry, from text that came in UTF-16 or in pieces of it."""

from __future__ import annotations

import re

_SURROGATE = "[\ud800-\udfff]"


def mend(text: str) -> str:
    """The halves of a character that came apart are joined, lone ones replaced."""
    if text.isascii() or not re.search(_SURROGATE, text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class TextJoiner:
    """Mends text that comes in pieces: half a character at the end of one waits for the next."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str) -> str:
        """What is whole now."""
        piece = self._held + piece
        self._held = piece[-1] if piece and "\ud800" <= piece[-1] <= "\udbff" else ""
        return mend(piece.removesuffix(self._held))

    def close(self) -> str:
        """The rest, and no more will follow."""
        held, self._held = self._held, ""
        return mend(held)
