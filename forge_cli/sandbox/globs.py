"""Globs as in ``.gitignore``, and braces for the globs that select the files of a search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

BRACES_MAX = 100
"""The number of globs that one glob with braces may expand to."""
# A star or a slash, a question mark, an escaped character, a set (negation and members),
# an unclosed bracket or a final backslash, or any other character.
_TOKEN = re.compile(
    r"([*/])|(\?)|\\(.)|\[([!^]?)(\]?+(?:\\.|\[:[^]]*:\]|[^]\\])*+)\]|([\\\[])|(.)",
    re.DOTALL,
)
# A class such as ``[:alpha:]``, or a character with an optional end of a range.
_MEMBER = re.compile(r"\[:([^]]*):\]|\\?(.)(?:-(?!\Z)\\?(.))?", re.DOTALL)
_BRACES = re.compile(r"(?<!\\)\{((?:\\.|[^{}\\])*)\}", re.DOTALL)
_LONE_BRACE = re.compile(r"(?<!\\)[{}]")
_NAME = "[^/]"
_FOLDERS = "(?:[^/]+/)"
_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


class BadGlob(ValueError):
    """A glob that can match nothing, such as one with an unclosed bracket."""


def glob_expression(glob: str) -> str:
    """Return a regular expression for whole paths.

    ``*`` never matches a slash, and ``**`` between slashes does.
    """
    groups: list[list[str]] = [[]]
    for name in _split(_tokens(glob), "/"):
        if len(name) > 1 and set(name) == {"*"}:
            groups.append([])
        else:
            groups[-1].append(_spread(["".join(chunk) for chunk in _split(name, "*")], _NAME))
    *folders, last = groups
    parts = ["".join(f"{name}/" for name in group) for group in folders]
    # ``a/**`` matches everything inside ``a``, but not ``a`` itself.
    return _spread([*parts, "/".join(last) if last else "[^/]+"], _FOLDERS)


def match_any(expressions: Iterable[str]) -> re.Pattern[str]:
    """Return one pattern that matches any of the expressions.

    Without expressions, it matches nothing.
    """
    return re.compile("|".join(expressions) or "(?!)")


def expand_braces(glob: str) -> list[str]:
    """Return the globs that a glob with alternatives such as ``*.{ts,tsx}`` expands to."""
    globs = [glob]
    while any(map(_BRACES.search, globs)):
        expanded: list[str] = []
        for each in globs:
            expanded += _expand_first(each)
        globs = expanded
        if len(globs) > BRACES_MAX:
            raise BadGlob(f"it has more than {BRACES_MAX} alternatives")
    # All pairs are expanded by now.
    if any(_LONE_BRACE.search(each) for each in globs):
        raise BadGlob("a brace is not closed or not opened")
    return globs


def _expand_first(glob: str) -> list[str]:
    """Expand the first braces that contain no others; a glob without braces stays as it is."""
    match = _BRACES.search(glob)
    if match is None:
        return [glob]
    return [glob[: match.start()] + choice + glob[match.end() :] for choice in match[1].split(",")]


def _tokens(glob: str) -> list[str]:
    """Return tokens: a star, a slash, or an expression for one character."""
    tokens = []
    for special, any_character, escaped, negation, members, broken, plain in _TOKEN.findall(glob):
        if broken:
            raise BadGlob(
                "a bracket is not closed" if broken == "[" else "it ends with a backslash"
            )
        if members:
            tokens.append(_set(members, negated=bool(negation)))
        else:
            tokens.append(special or (_NAME if any_character else re.escape(escaped or plain)))
    return tokens


def _set(members: str, *, negated: bool) -> str:
    ranges = []
    for found in _MEMBER.finditer(members):
        named, start, end = found.groups()
        if named is not None:
            if named not in _CLASSES:
                raise BadGlob(f"there is no class [:{named}:]")
            ranges.append(_CLASSES[named])
        else:
            # The start of a range is always a member, even if the end is before it.
            ranges.append(f"{re.escape(start)}-{re.escape(max(start, end or start))}")
    if negated:
        return f"[^/{''.join(ranges)}]"
    # A set never matches a slash, even if a range in it includes one.
    return f"(?!/)[{''.join(ranges)}]"


def _split(tokens: Sequence[str], at: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == at:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _spread(parts: Sequence[str], anything: str) -> str:
    """Join the parts with any number of ``anything`` between them.

    Each part in the middle matches at its first position, which leaves the most room for the
    following parts. No other position has to be tried, so no glob is slow.
    """
    first, *others = parts
    if not others:
        return first
    *middle, last = others
    # The atomic groups forbid backtracking.
    return first + "".join(f"(?>{anything}*?{each})" for each in middle) + f"{anything}*{last}"
