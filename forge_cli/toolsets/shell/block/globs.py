"""Whether a word with globs, or with ``~``, could become another word; what was quoted in it is protected."""

from __future__ import annotations

import re
from functools import lru_cache

from forge_cli.toolsets.shell.block.quoting import restore

_EXPANDS = re.compile(r"[*?]|\[.|(?:\A|[=:])~")
_PARTS = re.compile(r"(\*+)|(\?)|(\[[!^]?\]?(?:\[[:.=][^]]*\]|[^]])*\])|((?:(?<=[=:])|\A)~[^/]*)|(.)", re.DOTALL)
_LONGEST = 256
"""A longer glob is taken for one that could be anything."""


def is_glob(word: str) -> bool:
    return _EXPANDS.search(word) is not None


def could_be(word: str, token: str) -> bool:
    """Whether a word, case aside, is this token, or can become it once it is expanded."""
    expands = _EXPANDS.search(word)
    if expands is None:
        return restore(word).casefold() == token
    start = restore(word[: expands.start()]).casefold()
    return token.startswith(start) and (len(word) > _LONGEST or _fits(_parts(word), token))


@lru_cache(maxsize=256)
def _parts(word: str) -> tuple[str | re.Pattern[str], ...]:
    """A star, two stars where a slash is not an end, or a pattern for one character."""
    parts: list[str | re.Pattern[str]] = []
    for stars, one, bracket, tilde, char in _PARTS.findall(word):
        if stars:
            parts.append("*")
        elif one or bracket:
            parts.append(_bracket(bracket) if bracket else _ANY)
        elif tilde:
            parts += [re.compile("/"), "**"]
        else:
            parts.append(re.compile(re.escape(restore(char)), re.IGNORECASE))
    return tuple(parts)


_ANY = re.compile(r"[^/]")


def _bracket(text: str) -> re.Pattern[str]:
    """One character of a set; a set that is not plain is taken for any."""
    inside, negated = text[1:-1], text[1:2] in ("!", "^")
    if "[" in inside or "\\" in inside:
        return _ANY
    inside = (inside[1:] if negated else inside).replace("]", "\\]").replace("^", "\\^").replace("&", "\\&")
    try:
        return re.compile(f"[{'^' if negated else ''}{restore(inside)}]", re.IGNORECASE)
    except re.error:
        return _ANY


def _fits(parts: tuple[str | re.Pattern[str], ...], token: str) -> bool:
    """The usual walk: a star takes as little as it can, and one character more whenever the rest does not fit."""
    part, at, star, resume = 0, 0, -1, 0
    while at < len(token):
        wanted = parts[part] if part < len(parts) else None
        if isinstance(wanted, str):
            star, resume, part = part, at, part + 1
        elif isinstance(wanted, re.Pattern) and wanted.match(token[at]):
            part, at = part + 1, at + 1
        elif star >= 0 and (parts[star] == "**" or token[resume] != "/"):
            part, resume = star + 1, resume + 1
            at = resume
        else:
            return False
    return all(isinstance(rest, str) for rest in parts[part:])
