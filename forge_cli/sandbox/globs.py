"""Globs as ``.gitignore`` has them, and braces for those that choose the files of a search."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

BRACES_MAX = 100
"""Globs that one with braces may stand for."""
_TOKEN = re.compile(
    r"([*/])|(\?)|\\(.)|\[([!^]?)(\]?+(?:\\.|\[:[^]]*:\]|[^]\\])*+)\]|([\\\[])|(.)",
    re.DOTALL,
)
_MEMBER = re.compile(r"\[:([^]]*):\]|\\?(.)(?:-(?!\Z)\\?(.))?", re.DOTALL)
_BRACES = re.compile(r"(?<!\\)\{((?:\\.|[^{}\\])*)\}", re.DOTALL)
_LONE_BRACE = re.compile(r"(?<!\\)[{}]")
_NAME, _FOLDERS = "[^/]", "(?:[^/]+/)"
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
    """A glob that matches nothing, such as one with an unclosed bracket."""


def glob_expression(glob: str) -> str:
    """An expression for whole paths; a star never crosses a slash, two stars between slashes do."""
    groups: list[list[str]] = [[]]
    for name in _split(_tokens(glob), "/"):
        if len(name) > 1 and set(name) == {"*"}:
            groups.append([])
        else:
            groups[-1].append(_spread(["".join(chunk) for chunk in _split(name, "*")], _NAME))
    *folders, last = groups
    parts = ["".join(f"{name}/" for name in group) for group in folders]
    return _spread([*parts, "/".join(last) if last else "[^/]+"], _FOLDERS)


def match_any(expressions: Iterable[str]) -> re.Pattern[str]:
    """One expression for paths that fit some of several; those of no globs fit nothing."""
    return re.compile("|".join(expressions) or "(?!)")


def expand_braces(glob: str) -> list[str]:
    """The globs that one with alternatives such as ``*.{ts,tsx}`` stands for."""
    globs = [glob]
    while any(map(_BRACES.search, globs)):
        expanded: list[str] = []
        for each in globs:
            expanded += _expand_first(each)
        globs = expanded
        if len(globs) > BRACES_MAX:
            raise BadGlob(f"it has more than {BRACES_MAX} alternatives")
    if any(_LONE_BRACE.search(each) for each in globs):
        raise BadGlob("a brace is not closed or not opened")
    return globs


def _expand_first(glob: str) -> list[str]:
    """One glob for each alternative of the first braces that have none inside; a glob without braces as it is."""
    match = _BRACES.search(glob)
    if match is None:
        return [glob]
    return [glob[: match.start()] + choice + glob[match.end() :] for choice in match[1].split(",")]


def _tokens(glob: str) -> list[str]:
    """A star, a slash, or an expression for one character each."""
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
        else:  # the start of a range is a member, even where the end comes before it
            ranges.append(f"{re.escape(start)}-{re.escape(max(start, end or start))}")
    return f"[^/{''.join(ranges)}]" if negated else f"(?!/)[{''.join(ranges)}]"


def _split(tokens: Sequence[str], at: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token == at:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _spread(parts: Sequence[str], anything: str) -> str:
    """The parts, with any number of something between them.

    Each in the middle is taken where it first fits: what comes behind then has the most room, so no other place has to
    be tried, and no glob takes long.
    """
    first, *others = parts
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>{anything}*?{each})" for each in middle) + f"{anything}*{last}"
