"""Names of files as text: which are usable, which look alike, and how to show them."""

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
    """Return the text in quotes, escaped and shortened so that it cannot repaint a prompt."""
    return f"'{visible(cut(text, _SHOWN_MAX, 'middle'))}'"


def unusable(name: str) -> str | None:
    """Return why no file may have this name, or None if the name is usable."""
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
    """Return a key that is equal for names that people cannot tell apart."""
    # Plain ASCII has no invisible characters and no other forms; folders may have many such names.
    if name.isascii():
        return name
    visible = (
        character
        for character in name
        if character not in UNSEEN and unicodedata.category(character) != "Cf"
    )
    return unicodedata.normalize("NFKC", "".join(visible))


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """Return a key that is equal for names that some file system treats as the same file.

    Such names look alike, or differ in case, or in trailing dots and spaces.
    """
    same = name.casefold()
    if not name.isascii():
        same = unicodedata.normalize("NFKC", lookalike_key(name).casefold())
    return same.rstrip(" .")
