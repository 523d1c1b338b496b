"""Names as text: which ones are usable, which look alike, and how to show one to somebody."""

from __future__ import annotations

import sys
import unicodedata
from functools import lru_cache

from forge_cli.core.text import UNSEEN, cut, visible

NAME_MAX = 255
PATH_MAX = 1024 if sys.platform == "darwin" else 4096

_BIDIRECTIONAL = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
_SHOWN_MAX = 200


def shown(text: str) -> str:
    """The text in quotes, with what could repaint a prompt escaped and what is very long cut in the middle."""
    return f"'{visible(cut(text, _SHOWN_MAX, 'middle'))}'"


def unusable(name: str) -> str | None:
    """Why no file may be called that, or None when one may."""
    if len(name) <= NAME_MAX and name.isascii() and name.isprintable():
        return None
    if "\0" in name:
        return "contains a NUL character"
    for character in name:
        category = unicodedata.category(character)
        if category == "Cs":
            return "contains a character that cannot be encoded"
        if category in {"Cc", "Zl", "Zp"}:
            return "contains a control character"
        if character in _BIDIRECTIONAL:
            return "contains a character that changes the direction of text"
    if len(name.encode()) > NAME_MAX:
        return f"is longer than {NAME_MAX} bytes"
    return None


def lookalike_key(name: str) -> str:
    """Equal for names that people cannot tell apart: one normal form, without the invisible characters."""
    if (
        name.isascii()
    ):  # nothing in it is invisible or has another form; folders may have many names
        return name
    visible = (
        character
        for character in name
        if character not in UNSEEN and unicodedata.category(character) != "Cf"
    )
    return unicodedata.normalize("NFKC", "".join(visible))


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """Equal for names that some file system takes for the same: look-alikes, without case and a last dot or blank."""
    same = (
        name.casefold()
        if name.isascii()
        else unicodedata.normalize("NFKC", lookalike_key(name).casefold())
    )
    return same.rstrip(" .")
